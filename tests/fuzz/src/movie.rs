//! Movies of any container: whatever the file, reading refuses it or gives samples that lie in it, and their
//! payloads are no longer than was asked for and lie in it too. Boxes and elements are asked for within the
//! file, and few bytes are held, also in search of the duration. Packing makes an image that the reader
//! accepts.

use wirepath_media::container::{Movie, MovieReader, Samples};
use wirepath_media::image::{Header, Layout, PAGE, Table};
use wirepath_media::inspect::{MovieError, MovieInspector, MovieReport};
use wirepath_media::pack::PlayableMovie;
use wirepath_media::payload::depacketize::{depacketize, received};
use wirepath_media::payload::{Format, Packetizer, Payloads, Piece, Swapped, TrackDescription, Unit, Units};
use wirepath_media::track::{Codec, Extent, Next, Sample, TrackKind};

use crate::seeds;

/// Most bytes of a payload.
const LIMIT: usize = 200;

/// Most reads for a duration.
const MAX_DURATION_READS: usize = 100;

/// Reads a file by the readers that `reader` makes, in two ways.
pub(crate) fn fuzz(file: &[u8], reader: impl Fn(u64) -> MovieReader) {
    let size = file.len() as u64;
    let read = read(file, reader(size));
    let report = inspect(file, reader(size));
    assert_eq!(read.as_ref().err(), report.as_ref().err(), "inspection reads other samples");
    let (Ok((movie, samples)), Ok(report)) = (read, report) else { return };
    assert!(report.starts_us.is_sorted(), "starts out of order");
    pack(file, &movie);
    duration(file, &movie);
    let times = samples.iter().map(|sample| movie.tracks()[sample.track].decode_us(sample));
    let tables = matches!(&movie, Movie::Mp4(movie) if !movie.fragmented);
    assert!(!tables || times.is_sorted(), "tables are interleaved by decode time");
    if matches!(&movie, Movie::Matroska(_)) {
        check_order(&movie, &samples);
    }
    for (index, track) in movie.tracks().iter().enumerate() {
        let ours = || samples.iter().filter(|sample| sample.track == index);
        let in_order = ours().map(|sample| sample.decode_time).is_sorted();
        assert!(in_order || matches!(movie, Movie::Mp4(_)), "decode times out of order");
        let bytes: u64 = ours().map(|sample| sample.extent.length).sum();
        assert_eq!(report.tracks[index].bytes, bytes);
        assert!(bytes <= file.len() as u64, "more bytes of samples than the file has");
        if let Ok(format) = Format::of(track) {
            let described = TrackDescription::of(track, 96, report.tracks[index].frame_rate);
            assert!(described.is_ok_and(|description| !description.map.contains(['\r', '\n'])));
            packetize(file, format, &track.codec, ours());
        }
    }
}

/// Samples of video and sound of Matroska are interleaved by decode time, as long as no track has to be given up:
/// within a minute and few frames.
fn check_order(movie: &Movie, samples: &[Sample]) {
    let track = |sample: &Sample| &movie.tracks()[sample.track];
    let ours = samples.iter().filter(|sample| !matches!(track(sample).kind, TrackKind::Other(_)));
    let least = ours.clone().map(|sample| track(sample).decode_us(sample)).min().unwrap_or(0);
    let near = |sample: &Sample| track(sample).presentation_us(sample).saturating_sub(least) < 60_000_000;
    if samples.len() < 1 << 14 && ours.clone().all(near) {
        assert!(ours.map(|sample| track(sample).decode_us(sample)).is_sorted(), "tracks out of decode order");
    }
}

/// Packs the tracks that can be played: the reader takes the image, whose packets are no longer than was asked
/// for.
fn pack(file: &[u8], movie: &Movie) {
    let Ok(playable) = PlayableMovie::of(movie.clone()) else { return };
    let Some(plan) = seeds::movie_plan(file, &playable, LIMIT as u16) else { return };
    let Ok(image) = seeds::pack(file, plan, Layout::Image) else { return };
    let header = Header::decode(&image[..PAGE as usize], image.len() as u64).expect("a header");
    let table = Table::decode(&image[header.table.offset as usize..], &header).expect("a table");
    for (index, entry) in table.segments.iter().enumerate() {
        let bytes = &image[entry.offset as usize..][..entry.length() as usize];
        let trains = entry.trains(&header.plan, table.until_us(index, &header), bytes);
        assert!(trains.expect("a segment").iter().all(|train| usize::from(train.packet_size) <= 12 + LIMIT));
    }
}

/// Searches the duration, with few reads.
fn duration(file: &[u8], movie: &Movie) {
    let (mut reader, mut reads) = (movie.duration(), 0);
    while let Some(wanted) = reader.wanted() {
        reads += 1;
        assert!(reads <= MAX_DURATION_READS, "more than {MAX_DURATION_READS} reads for a duration");
        reader.take(bytes(file, wanted).to_vec());
    }
    assert_ne!(reader.finish(), Some(0), "an unknown duration is none");
}

fn bytes(file: &[u8], wanted: Extent) -> &[u8] {
    assert!(wanted.length > 0 && wanted.end() <= file.len() as u64, "{wanted:?} is not in the file");
    &file[wanted.offset as usize..wanted.end() as usize]
}

fn read(file: &[u8], reader: MovieReader) -> Result<(Movie, Vec<Sample>), MovieError> {
    let movie = header(file, reader)?;
    let (mut samples, mut found) = (movie.samples(), Vec::new());
    loop {
        let held = match &samples {
            Samples::Mp4(samples) => samples.held_bytes(),
            Samples::Matroska(samples) => samples.held(),
            Samples::TransportStream(samples) => samples.held_bytes(),
        };
        assert!(held <= file.len(), "more is held than was read");
        match samples.next()? {
            Next::Read(wanted) => samples.take(bytes(file, wanted).to_vec())?,
            Next::Sample(sample) => {
                assert!(sample.extent.end() <= file.len() as u64, "{sample:?} is not in the file");
                found.push(sample);
            }
            Next::Growth => panic!("nobody said that the file grows"),
            Next::End => return Ok((movie, found)),
        }
    }
}

/// Reads a file again while it grows to its length by pieces, whose number and lengths depend on its bytes: the
/// samples are those of the finished file, in the same order, unless an error ends one of them early or the file
/// has a box that ends a recording.
pub(crate) fn grow(file: &[u8]) {
    let reader = |size: u64| MovieReader::Mp4(wirepath_media::mp4::MovieReader::new(size));
    let mut lengths = lengths(file);
    let mut size = lengths.next().unwrap_or(file.len());
    let mut samples = loop {
        match header(&file[..size], reader(size as u64)) {
            Ok(movie) => break movie.samples().growing(),
            Err(_) if size < file.len() => size = lengths.next().unwrap_or(file.len()),
            Err(_) => return,
        }
    };
    let (mut found, mut grows) = (Vec::new(), true);
    loop {
        let Samples::Mp4(held) = &samples else { unreachable!("an MP4 file") };
        assert!(held.held_bytes() <= file.len(), "more is held than was read");
        match samples.next() {
            Err(_) => return,
            Ok(Next::Read(wanted)) => {
                if samples.take(bytes(&file[..size], wanted).to_vec()).is_err() {
                    return;
                }
            }
            Ok(Next::Sample(sample)) => {
                assert!(sample.extent.end() <= size as u64, "{sample:?} is not in the file yet");
                found.push(sample);
            }
            Ok(Next::Growth) if size < file.len() => {
                size = lengths.next().unwrap_or(file.len());
                samples.grow(size as u64);
            }
            Ok(Next::Growth) => {
                assert!(grows, "more growth is wanted of a finished file");
                grows = false;
                samples.end_growth();
            }
            Ok(Next::End) => break,
        }
    }
    let Ok((_, all)) = read(file, reader(file.len() as u64)) else { return };
    if size == file.len() {
        assert_eq!(found, all, "a growing file has other samples");
    }
}

/// Increasing lengths up to that of the file, by pieces that depend on its bytes.
fn lengths(file: &[u8]) -> impl Iterator<Item = usize> {
    let all = file.len();
    let pieces = file.iter().rev().take(16).map(|byte| 1 + usize::from(*byte) * all / 1024);
    let pieces: Vec<usize> = pieces.collect();
    let ends = pieces.into_iter().scan(0, move |end, piece| {
        *end += piece;
        Some((*end).min(all))
    });
    ends.take_while(move |end| *end < all)
}

fn header(file: &[u8], mut reader: MovieReader) -> Result<Movie, MovieError> {
    while let Some(wanted) = reader.wanted() {
        reader.take(bytes(file, wanted).to_vec())?;
    }
    Ok(reader.finish()?)
}

fn inspect(file: &[u8], reader: MovieReader) -> Result<MovieReport, MovieError> {
    let mut inspector = MovieInspector::new(reader);
    while let Some(wanted) = inspector.wanted() {
        inspector.take(bytes(file, wanted).to_vec())?;
    }
    Ok(inspector.finish()?.expect("no error came before"))
}

fn packetize<'a>(file: &[u8], format: Format, codec: &Codec, samples: impl Iterator<Item = &'a Sample>) {
    let (mut packetizer, mut payloads) = (Packetizer::new(format, LIMIT, 4), Payloads::default());
    let mut expected: Vec<u8> = Vec::new();
    for sample in samples {
        let Some(units) = units(file, codec, sample.extent) else { return };
        if packetizer.push(sample.extent, &units, sample.decode_time, &mut payloads).is_err() {
            return;
        }
        expected.extend(received(file, format, sample.extent, &units));
    }
    packetizer.flush(&mut payloads);
    assert_eq!(payloads.trains().sum::<usize>(), payloads.iter().count());
    for payload in payloads.iter() {
        assert!((1..=LIMIT).contains(&payload.length), "a payload of {} bytes", payload.length);
        for piece in payload.pieces {
            assert!(
                matches!(piece, Piece::Generated(_))
                    || matches!(piece, Piece::Extent(extent) | Piece::Swapped(Swapped { extent, .. })
                        if extent.end() <= file.len() as u64)
            );
        }
    }
    let packets: Vec<_> = payloads.iter().map(|payload| (payload.copy(file), payload.marker)).collect();
    if !matches!(format, Format::H264 | Format::H265) {
        let samples = depacketize(format, &packets).expect("packets that a receiver takes");
        assert_eq!(samples.concat(), expected, "other bytes come back");
    }
}

/// Units of a sample, if it is divided into them.
fn units(file: &[u8], codec: &Codec, sample: Extent) -> Option<Vec<Unit>> {
    let (mut walk, mut units) = (Units::new(codec, sample), Vec::new());
    while let Some(wanted) = walk.wanted() {
        units.extend(walk.take(bytes(file, wanted)).ok()?);
    }
    Some(units)
}
