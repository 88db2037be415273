//! MP4 files: whatever the file, reading refuses it or gives samples that lie in it, and their payloads are
//! no longer than was asked for and lie in it too. Boxes are asked for within the file, and few bytes are
//! held. Packing makes an image that the reader accepts.

use wirepath_media::image::{Header, Layout, PAGE, Table};
use wirepath_media::inspect::MovieInspector;
use wirepath_media::mp4::{Codec, Error, Extent, Movie, MovieReader, Next, Sample};
use wirepath_media::pack::PlayableMovie;
use wirepath_media::payload::depacketize::depacketize;
use wirepath_media::payload::nal::{NalUnit, NalUnits};
use wirepath_media::payload::{Format, Packetizer, Payloads, Piece, TrackDescription};

use crate::seeds;

/// Most bytes of a payload.
const LIMIT: usize = 200;

/// The target.
pub fn fuzz(file: &[u8]) {
    let read = read(file);
    let report = inspect(file);
    assert_eq!(read.as_ref().err(), report.as_ref().err(), "inspection reads other samples");
    let (Ok((movie, samples)), Ok(report)) = (read, report) else { return };
    assert!(report.starts_us.is_sorted(), "starts out of order");
    pack(file, &movie);
    let times = samples.iter().map(|sample| movie.tracks[sample.track].decode_us(sample));
    assert!(movie.fragmented || times.is_sorted(), "tables are interleaved by decode time");
    for (index, track) in movie.tracks.iter().enumerate() {
        let ours = || samples.iter().filter(|sample| sample.track == index);
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

fn bytes(file: &[u8], wanted: Extent) -> &[u8] {
    assert!(wanted.length > 0 && wanted.end() <= file.len() as u64, "{wanted:?} is not in the file");
    &file[wanted.offset as usize..wanted.end() as usize]
}

fn read(file: &[u8]) -> Result<(Movie, Vec<Sample>), Error> {
    let mut reader = MovieReader::new(file.len() as u64);
    while let Some(wanted) = reader.wanted() {
        reader.take(bytes(file, wanted).to_vec())?;
    }
    let movie = reader.finish()?;
    let (mut samples, mut found) = (movie.samples(), Vec::new());
    loop {
        assert!(samples.held_bytes() <= file.len(), "more is held than was read");
        match samples.next()? {
            Next::Read(wanted) => samples.take(bytes(file, wanted).to_vec())?,
            Next::Sample(sample) => {
                assert!(sample.extent.end() <= file.len() as u64, "{sample:?} is not in the file");
                found.push(sample);
            }
            Next::End => return Ok((movie, found)),
        }
    }
}

fn inspect(file: &[u8]) -> Result<wirepath_media::inspect::MovieReport, Error> {
    let mut inspector = MovieInspector::new(file.len() as u64);
    while let Some(wanted) = inspector.wanted() {
        inspector.take(bytes(file, wanted).to_vec())?;
    }
    inspector.finish()
}

fn packetize<'a>(file: &[u8], format: Format, codec: &Codec, samples: impl Iterator<Item = &'a Sample>) {
    let length_size = match codec {
        Codec::H264(avc) => Some(avc.length_size),
        Codec::H265(hevc) => Some(hevc.length_size),
        _ => None,
    };
    let (mut packetizer, mut payloads) = (Packetizer::new(format, LIMIT, 4), Payloads::default());
    let mut expected: Vec<u8> = Vec::new();
    for sample in samples {
        let units = match length_size {
            Some(length_size) => units(file, sample.extent, length_size),
            None => Some(Vec::new()),
        };
        let Some(units) = units else { return };
        if packetizer.push(sample.extent, &units, sample.decode_time, &mut payloads).is_err() {
            return;
        }
        expected.extend(&file[sample.extent.offset as usize..sample.extent.end() as usize]);
    }
    packetizer.flush(&mut payloads);
    assert_eq!(payloads.trains().sum::<usize>(), payloads.iter().count());
    for payload in payloads.iter() {
        assert!((1..=LIMIT).contains(&payload.length), "a payload of {} bytes", payload.length);
        for piece in payload.pieces {
            assert!(
                matches!(piece, Piece::Generated(_))
                    || matches!(piece, Piece::Extent(extent) if extent.end() <= file.len() as u64)
            );
        }
    }
    let packets: Vec<_> = payloads.iter().map(|payload| (payload.copy(file), payload.marker)).collect();
    if length_size.is_none() {
        let samples = depacketize(format, &packets).expect("packets that a receiver takes");
        assert_eq!(samples.concat(), expected, "other bytes come back");
    }
}

/// NAL units of a sample, if it is divided into them.
fn units(file: &[u8], sample: Extent, length_size: u8) -> Option<Vec<NalUnit>> {
    let (mut walk, mut units) = (NalUnits::new(sample, length_size), Vec::new());
    while let Some(wanted) = walk.wanted() {
        units.extend(walk.take(bytes(file, wanted)).ok()?);
    }
    Some(units)
}
