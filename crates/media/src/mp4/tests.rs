//! Tests with generated and with faulty files.

use bytes::Bytes;
use proptest::prelude::*;

use super::samples::MAX_SAMPLES;
use super::synthetic::{
    self, File, Layout, SampleShape, SampleTrack, atom, audio, elementary_stream, full, words,
};
use super::*;
use crate::payload::Format;
use crate::track::Av1;

/// Returns the samples of a file, and the number of bytes that were read. An error of one track is an error.
pub(super) fn read(file: &[u8]) -> Result<(Movie, Vec<Sample>, u64), Error> {
    let (movie, found, read, faults) = read_tracks(file)?;
    match movie.faults.iter().chain(&faults).next() {
        Some(fault) => Err(fault.error.clone()),
        None => Ok((movie, found, read)),
    }
}

/// Returns the same, and the errors of tracks; other tracks are read.
fn read_tracks(file: &[u8]) -> Result<(Movie, Vec<Sample>, u64, Vec<TrackFault>), Error> {
    let mut read = 0;
    let mut bytes = |wanted: Extent| {
        read += wanted.length;
        Bytes::copy_from_slice(&file[wanted.offset as usize..wanted.end() as usize])
    };
    let mut reader = MovieReader::new(file.len() as u64);
    while let Some(wanted) = reader.wanted() {
        reader.take(bytes(wanted))?;
    }
    let movie = reader.finish()?;
    let (mut samples, mut found) = (movie.samples(), Vec::new());
    loop {
        match samples.next()? {
            Next::Read(wanted) => samples.take(bytes(wanted))?,
            Next::Sample(sample) => found.push(sample),
            Next::Growth | Next::End => return Ok((movie, found, read, samples.take_faults())),
        }
    }
}

fn error(file: &[u8]) -> String {
    read(file).expect_err("a fault").to_string()
}

pub(super) fn sample(length: u32, duration: u32, composition_offset: i32, sync: bool) -> SampleShape {
    SampleShape { length, duration, composition_offset, sync }
}

/// File with video at 25 frames per second, in which frames are reordered, and AAC.
fn two_tracks() -> File {
    let video = SampleTrack {
        timescale: 12_800,
        samples: vec![
            sample(100, 512, 512, true),
            sample(40, 512, 1024, false),
            sample(30, 512, 0, false),
            sample(90, 512, 512, true),
        ],
        edits: vec![(160, 512)],
        ..File::default().tracks.remove(0)
    };
    let sound = SampleTrack {
        timescale: 48_000,
        handler: *b"soun",
        entry: audio(b"mp4a", &[elementary_stream(0x40, &[0x11, 0x90])]),
        samples: vec![sample(7, 1024, 0, true); 8],
        edits: vec![(100, -1), (170, 1024)],
    };
    File { tracks: vec![video, sound], layout: Layout::Front, samples_in_chunk: 3, long: false }
}

/// Promise: Samples of MP4 tables and fragments are found as extents, in decode order across tracks.
#[test]
fn samples_are_where_the_tables_say() {
    for (layout, long) in [
        (Layout::Front, false),
        (Layout::Front, true),
        (Layout::End, true),
        (Layout::End, false),
        (Layout::SeveralMdat, false),
        (Layout::Fragments, false),
    ] {
        let file = File { layout, long, ..two_tracks() };
        let bytes = file.bytes();
        let (movie, samples, _) = read(&bytes).unwrap();
        assert_eq!(samples.len(), 12, "{layout:?}");
        let times: Vec<i64> =
            samples.iter().map(|found| movie.tracks[found.track].decode_us(found)).collect();
        assert!(times.is_sorted(), "{layout:?}: {times:?}");
        for (index, track) in file.tracks.iter().enumerate() {
            let mut time = 0;
            let found = samples.iter().filter(|found| found.track == index);
            for (number, (found, shape)) in found.zip(&track.samples).enumerate() {
                let content = &bytes[found.extent.offset as usize..found.extent.end() as usize];
                assert_eq!(content, vec![number as u8; shape.length as usize], "{layout:?}");
                assert_eq!((found.decode_time, found.duration), (time, shape.duration));
                assert_eq!(found.composition_offset, i64::from(shape.composition_offset));
                assert_eq!((found.sync, found.count), (shape.sync, 1));
                time += u64::from(shape.duration);
            }
        }
    }
}

/// Promise: Edit lists of MP4 tracks set their delay and start, so that picture and sound are in sync.
#[test]
fn edit_lists_shift_tracks() {
    let (movie, samples, _) = read(&two_tracks().bytes()).unwrap();
    let [video, sound] = movie.tracks.as_slice() else { panic!("two tracks") };
    let first = |track| samples.iter().find(|found| found.track == track).unwrap();
    assert_eq!((video.shift, sound.shift), (-512, 4800 - 1024));
    assert_eq!(video.presentation_us(first(0)), 0);
    assert_eq!(video.decode_us(first(0)), -40_000);
    assert_eq!(sound.presentation_us(first(1)), 100_000 - 21_334);
    assert_eq!((video.edits_left_out, sound.edits_left_out), (0, 0));
    let mut cut = two_tracks();
    cut.tracks[0].edits = vec![(100, 0), (100, 1024), (50, -1)];
    assert_eq!(read(&cut.bytes()).unwrap().0.tracks[0].edits_left_out, 2);
}

#[test]
fn tracks_are_described() {
    let (movie, ..) = read(&two_tracks().bytes()).unwrap();
    let [video, sound] = movie.tracks.as_slice() else { panic!("two tracks") };
    assert_eq!(movie.brand, Some(FourCc(*b"isom")));
    assert_eq!((video.kind, video.picture), (TrackKind::Video, Some((64, 48))));
    assert_eq!(video.codec.profile().as_deref(), Some("Constrained Baseline 3.0"));
    assert_eq!(video.language.as_deref(), Some("eng"));
    let Codec::H264(avc) = &video.codec else { panic!("{:?}", video.codec) };
    assert_eq!((avc.length_size, avc.sequence_sets[0][..].len(), avc.picture_sets[0].len()), (4, 4, 2));
    assert_eq!(sound.codec.name(), "AAC-LC");
    assert_eq!(sound.sound, Some(Sound { channels: 2, sample_rate: 48_000 }));
}

/// First track of a file with a single audio track that has this sample description.
fn sound(entry: Vec<u8>) -> Track {
    let mut file = two_tracks();
    file.tracks.remove(0);
    file.tracks[0].entry = entry;
    read(&file.bytes()).unwrap().0.tracks.remove(0)
}

#[test]
fn only_aac_is_aac() {
    let codec =
        |object_type| sound(audio(b"mp4a", &[elementary_stream(object_type, &[0x11, 0x90])])).codec.name();
    assert_eq!([0x40, 0x66, 0x67, 0x68].map(codec), ["AAC-LC"; 4]);
    assert_eq!([0x6b, 0xa5].map(codec), ["MPEG audio", "AC-3"]);
    // The configurations of DTS, Vorbis and QCELP are not an AudioSpecificConfig.
    assert_eq!([0xa9, 0xdd, 0xe1].map(codec), ["mp4a"; 3]);
}

/// First track of a file with a single video track that has this sample description.
fn picture(entry: Vec<u8>) -> Track {
    let mut file = File::default();
    file.tracks[0].entry = entry;
    read(&file.bytes()).unwrap().0.tracks.remove(0)
}

/// Promise: MP4 tracks of AV1, VP8, VP9, G.711 and linear PCM are read with all parameters that RTP needs.
#[test]
fn sample_entries_without_esds_are_read() {
    let av1 = picture(synthetic::visual(b"av01", &[atom(b"av1C", &[vec![0x81, 0x0d, 0x80, 0]])]));
    assert_eq!(av1.codec, Codec::Av1(Some(Av1 { profile: 0, level: 13, tier: 1 })));
    assert_eq!(av1.codec.profile().as_deref(), Some("Main 5.1"));
    let vp9 = picture(synthetic::visual(b"vp09", &[atom(b"vpcC", &[vec![1, 0, 0, 0, 2, 31]])]));
    assert_eq!((vp9.codec.clone(), Format::of(&vp9)), (Codec::Vp9(Some(2)), Ok(Format::Vp9)));
    assert_eq!(Format::of(&picture(synthetic::visual(b"vp08", &[]))), Ok(Format::Vp8));
    let format = |entry| match Format::of(&sound(entry)) {
        Ok(Format::Pcm(format)) => {
            format!("{:?}/{}/{}", format.encoding, format.sample_rate, format.channels)
        }
        other => other.expect_err("no other format").to_string(),
    };
    let little = atom(b"wave", &[atom(b"enda", &[vec![0, 1]])]);
    let version_1 = |kind, boxes: Vec<u8>| {
        let mut entry = audio(kind, &[vec![0; 16], boxes]);
        entry[8 + 9] = 1;
        entry
    };
    let lpcm = |bits: u32, flags: u32| {
        let fields =
            [words(&[72]), 44_100f64.to_be_bytes().to_vec(), words(&[2, 0x7f00_0000, bits, flags, 4, 1])];
        let mut entry = audio(b"lpcm", &fields);
        entry[8 + 9] = 2;
        entry
    };
    let pcm = |flags, bits| atom(b"pcmC", &[vec![0, 0, 0, 0, flags, bits]]);
    for (entry, expected) in [
        (audio(b"alaw", &[]), "Pcma/48000/2"),
        (audio(b"ulaw", &[]), "Pcmu/48000/2"),
        (audio(b"twos", &[]), "L16/48000/2"),
        (audio(b"sowt", &[]), "L16Little/48000/2"),
        (audio(b"raw ", &[]), "PCM 8 bit unsigned is not supported: "),
        (version_1(b"in24", Vec::new()), "L24/48000/2"),
        (version_1(b"in24", little), "L24Little/48000/2"),
        (version_1(b"fl32", Vec::new()), "PCM 32 bit float is not supported: "),
        (lpcm(16, 14), "L16/44100/2"),
        (lpcm(16, 12), "L16Little/44100/2"),
        (lpcm(32, 11), "PCM 32 bit float is not supported: "),
        (audio(b"ipcm", &[pcm(0, 24)]), "L24/48000/2"),
        (audio(b"ipcm", &[pcm(1, 24)]), "L24Little/48000/2"),
        (audio(b"fpcm", &[pcm(0, 32)]), "PCM 32 bit float is not supported: "),
    ] {
        assert!(format(entry.clone()).starts_with(expected), "{}", format(entry));
    }
}

#[test]
fn pcm_whose_size_is_1_has_that_of_its_samples() {
    let mut file = two_tracks();
    file.tracks.remove(0);
    file.tracks[0].entry = audio(b"twos", &[]);
    let mut bytes = replace(&file.bytes(), b"stsz", &words(&[0, 1, 8]));
    bytes.resize(4000, 0);
    let (_, samples, _) = read(&bytes).unwrap();
    assert!(samples.iter().all(|found| found.extent.length == 4 * u64::from(found.count)));
}

#[test]
fn opus_of_more_channels_than_rtp_has_is_not_played() {
    let opus = |channels: u8| {
        let mut entry = audio(b"Opus", &[]);
        entry[8 + 17] = channels;
        Format::of(&sound(entry)).map_err(|reason| reason.to_string())
    };
    assert_eq!((opus(1), opus(2)), (Ok(Format::Opus), Ok(Format::Opus)));
    assert_eq!(opus(6).unwrap_err(), "no RTP payload format for Opus of more than 2 channels");
}

#[test]
fn the_clock_of_ac3_is_that_of_its_configuration() {
    let ac3 = |dac3: &[u8]| {
        let mut entry = audio(b"ac-3", &[atom(b"dac3", &[dac3.to_vec()])]);
        entry[8 + 24..8 + 28].fill(0);
        let track = sound(entry);
        (track.sound, Format::Ac3.clock_hz(&track))
    };
    // fscod 1, acmod 7, lfeon; then a reserved sample rate, and none in the sample entry.
    assert_eq!(ac3(&[0x50, 0x3c, 0]), (Some(Sound { channels: 6, sample_rate: 44_100 }), 44_100));
    assert_eq!(ac3(&[0xd0, 0x3c, 0]), (Some(Sound { channels: 2, sample_rate: 0 }), 48_000));
}

#[test]
fn audio_entries_of_version_1_are_quicktime_s_or_iso_s() {
    let esds = elementary_stream(0x40, &[0x11, 0x90]);
    let entry = |boxes: Vec<u8>| {
        let mut entry = audio(b"mp4a", &[boxes]);
        entry[8 + 9] = 1;
        entry
    };
    assert_eq!(sound(entry([vec![0; 16], esds.clone()].concat())).codec.name(), "AAC-LC");
    let mut file = two_tracks();
    file.tracks.remove(0);
    let bytes = replace(&file.bytes(), b"stsd", &[words(&[1 << 24, 1]), entry(esds)].concat());
    assert_eq!(read(&bytes).unwrap().0.tracks[0].codec.name(), "AAC-LC");
}

#[test]
fn parameter_sets_are_not_empty_and_not_endless() {
    let array = |kind: u8, length: u16| {
        let set = [&length.to_be_bytes()[..], &vec![1; length.into()]].concat();
        [vec![kind, 0xff, 0xff], set.repeat(u16::MAX.into())].concat()
    };
    let configuration =
        [vec![0; 22], vec![4], array(32, 1), array(33, 0), array(34, 2), array(39, 3)].concat();
    let mut file = File::default();
    file.tracks[0].entry = synthetic::visual(b"hvc1", &[atom(b"hvcC", &[configuration])]);
    let (movie, ..) = read(&file.bytes()).unwrap();
    let Codec::H265(hevc) = &movie.tracks[0].codec else { panic!("{:?}", movie.tracks[0].codec) };
    let counts = [&hevc.video_sets, &hevc.sequence_sets, &hevc.picture_sets].map(Vec::len);
    assert_eq!(counts, [256, 0, 256]);
}

/// Promise: Only boxes of an MP4 file are read, no media.
#[test]
fn media_is_not_read() {
    for layout in [Layout::Front, Layout::End, Layout::Fragments] {
        let mut file = File { layout, ..two_tracks() };
        file.tracks[0].samples[0].length = 5_000_000;
        let (_, _, read) = read(&file.bytes()).unwrap();
        assert!(read < 3_000, "{layout:?}: {read}");
    }
}

#[test]
fn linear_pcm_is_taken_by_the_tenth_of_a_second() {
    let mut file = two_tracks();
    file.tracks.remove(0);
    file.tracks[0].entry = audio(b"sowt", &[]);
    file.tracks[0].samples.clear();
    file.tracks[0].edits.clear();
    let mut bytes = file.bytes();
    // One second of 48,000 samples of 4 bytes, in one chunk.
    for (kind, body) in [
        (b"stts", words(&[0, 1, 48_000, 1])),
        (b"stsc", words(&[0, 1, 1, 48_000, 1])),
        (b"stsz", words(&[0, 4, 48_000])),
        (b"stco", words(&[0, 1, 0])),
    ] {
        bytes = replace(&bytes, kind, &body);
    }
    bytes.resize(48_000 * 4, 0);
    let (_, samples, _) = read(&bytes).unwrap();
    assert_eq!(samples.len(), 10);
    assert!(samples.iter().all(|found| (found.count, found.extent.length) == (4800, 19_200)));
}

#[test]
fn sizes_may_be_compact() {
    let mut file = File { layout: Layout::End, ..two_tracks() };
    file.tracks.truncate(1);
    for (bits, sizes) in [(4, vec![0x53, 0x17]), (8, vec![5, 3, 1, 7]), (16, vec![0, 5, 0, 3, 0, 1, 0, 7])] {
        let body = [words(&[0, bits, 4]), sizes].concat();
        let mut bytes = replace(&file.bytes(), b"stsz", &body);
        let at = bytes.windows(4).position(|name| name == b"stsz").unwrap();
        bytes[at..at + 4].copy_from_slice(b"stz2");
        let lengths: Vec<u64> = read(&bytes).unwrap().1.iter().map(|found| found.extent.length).collect();
        assert_eq!(lengths, [5, 3, 1, 7], "{bits} bits");
    }
}

/// Replaces the body of the first box of a type, without padding to the end of the enclosing boxes.
pub(super) fn replace(file: &[u8], kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    fn rebuilt(bytes: &[u8], kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = bytes;
        while rest.len() >= 8 {
            let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            let name: [u8; 4] = rest[4..8].try_into().unwrap();
            let content = &rest[8..length.clamp(8, rest.len())];
            out.extend(match &name {
                name if name == kind => atom(name, &[body.to_vec()]),
                b"moov" | b"trak" | b"mdia" | b"minf" | b"stbl" | b"edts" | b"moof" | b"traf" => {
                    atom(&name, &[rebuilt(content, kind, body)])
                }
                _ => rest[..length].to_vec(),
            });
            rest = &rest[length..];
        }
        out
    }
    rebuilt(file, kind, body)
}

/// Promise: Hostile MP4 files are refused with the faulty box or sample, in bounded time and memory.
#[test]
fn hostile_files_are_refused() {
    let mut end = File { layout: Layout::End, ..two_tracks() };
    end.tracks.iter_mut().for_each(|track| track.edits.clear());
    let end = end.bytes();
    let sizes = |size: u64| {
        let mut bytes = end[..16].to_vec();
        bytes.extend(words(&[1]));
        bytes.extend(b"free");
        bytes.extend(size.to_be_bytes());
        bytes
    };
    for (name, file, expected) in [
        ("text", b"This is not a movie.".to_vec(), "not an MP4 file"),
        ("empty", Vec::new(), "not an MP4 file"),
        ("no moov", end[..200].to_vec(), "no moov box in this MP4 file"),
        ("a cut moov", end[..end.len() - 9].to_vec(), "MP4 box moov at byte 340: the file ends within it"),
        ("a size of 0", sizes(0), "MP4 box free at byte 16: its size is smaller than its header"),
        ("a size of 2^63", sizes(1 << 63), "no moov box in this MP4 file"),
        ("a timescale of 0", replace(&end, b"mdhd", &words(&[0, 0, 0, 0, 0, 0])), "its timescale is 0"),
        (
            "a box longer than its parent",
            replace(&end, b"stbl", &words(&[5000, 0x73747373])),
            "ends after the box",
        ),
        (
            "a billion entries of stts",
            replace(&end, b"stts", &words(&[0, 1_000_000_000, 1, 1])),
            "fewer entries",
        ),
        ("4 billion entries of stsz", replace(&end, b"stsz", &words(&[0, 0, u32::MAX])), "fewer entries"),
        (
            "4 billion samples",
            replace(&end, b"stsz", &words(&[0, 1, u32::MAX])),
            "its chunk is not in the table",
        ),
        ("overlapping chunks", chunks(&end), "the samples up to it have more bytes than the file"),
        (
            "a sample beyond the file",
            replace(&end, b"stco", &words(&[0, 2, 9000, 9000])),
            "is beyond the file",
        ),
        ("no times", replace(&end, b"stts", &words(&[0, 0])), "the times of samples are missing"),
        ("no chunks", replace(&end, b"stsc", &words(&[0, 0])), "the chunks of samples are missing"),
        ("no places", replace(&end, b"stco", &words(&[0, 0])), "the places of chunks are missing"),
        ("a short stsz", replace(&end, b"stsz", &[]), "ends within its fields"),
        ("many tracks", many_tracks(), "this MP4 file has more tracks: at most 64 are read"),
        ("4 billion samples of nothing", nothing(), "the size of its samples is missing"),
    ] {
        let found = error(&file);
        assert!(found.contains(expected), "{name}: {found}");
    }
}

/// Chunks that overlap: a thousand chunks have the same offset.
fn chunks(file: &[u8]) -> Vec<u8> {
    let file = replace(file, b"stsc", &words(&[0, 1, 1, 4000, 1]));
    let file = replace(&file, b"stsz", &words(&[0, 1, u32::MAX]));
    replace(&file, b"stco", &words(&[vec![0, 1000], vec![0; 1000]].concat()))
}

fn many_tracks() -> Vec<u8> {
    let track = synthetic::SampleTrack { samples: Vec::new(), ..File::default().tracks.remove(0) };
    File { tracks: vec![track; 65], ..File::default() }.bytes()
}

fn nothing() -> Vec<u8> {
    let mut file = File { layout: Layout::Fragments, ..two_tracks() }.bytes();
    let run = full(b"trun", 0, &[words(&[u32::MAX])]);
    let traf = atom(b"traf", &[full(b"tfhd", 0x2_0000, &[words(&[1])]), run]);
    file.extend(atom(b"moof", &[traf]));
    file
}

/// Promise: A fragmented MP4 file that ends anywhere is read up to its last whole fragment.
#[test]
fn a_fragmented_file_may_end_anywhere() {
    let whole = File { layout: Layout::Fragments, samples_in_chunk: 1, ..two_tracks() }.bytes();
    let (_, all, _) = read(&whole).unwrap();
    let mut found = 0;
    for length in whole.len() * 2 / 3..whole.len() {
        let (_, samples, _) = read(&whole[..length]).unwrap();
        assert!(samples.len() >= found && samples.len() < all.len());
        assert!(samples.iter().all(|sample| all.contains(sample)));
        found = samples.len();
    }
    assert!(found > 8);
}

/// Promise: One damaged track of an MP4 file does not prevent reading the others.
#[test]
fn a_damaged_track_ends_alone() {
    let good = read(&two_tracks().bytes()).unwrap();
    let sound = |samples: &[Sample], track| samples.iter().filter(|sample| sample.track == track).count();
    // Sets all bytes of the number that is `behind` bytes after the type of the first box of a kind.
    let damaged = |kind: &[u8; 4], behind: usize, byte: u8| {
        let mut bytes = two_tracks().bytes();
        let at = bytes.windows(4).position(|name| name == kind).unwrap() + 4 + behind;
        bytes[at..at + 4].fill(byte);
        bytes
    };
    let (movie, ..) = read_tracks(&damaged(b"mdhd", 12, 0)).unwrap();
    assert_eq!((movie.tracks.len(), movie.faults.len()), (1, 1));
    assert_eq!((movie.tracks[0].id, movie.faults[0].track), (2, 1));
    let (_, samples, _, faults) = read_tracks(&damaged(b"stco", 8, 0xff)).unwrap();
    assert_eq!((sound(&samples, 0), sound(&samples, 1)), (0, sound(&good.1, 1)));
    assert_eq!(faults.iter().map(|fault| fault.track).collect::<Vec<_>>(), [1]);
}

/// Promise: An MP4 file with a sample that is too large for any picture is refused.
#[test]
fn the_length_of_a_sample_is_bounded() {
    let end = File { layout: Layout::End, ..two_tracks() }.bytes();
    let mut long = replace(&end, b"stsz", &words(&[0, (64 << 20) + 1, 4]));
    long.resize(65 << 20, 0);
    assert_eq!(error(&long), "this MP4 file has a sample of more bytes: at most 67108864 are read");
}

#[test]
fn the_number_of_samples_is_bounded() {
    let mut samples = read(&File::default().bytes()).unwrap().0.samples();
    samples.given = MAX_SAMPLES - 1;
    assert!(matches!(samples.next(), Ok(Next::Sample(_))));
    let error = samples.next().unwrap_err().to_string();
    assert_eq!(error, "this MP4 file has more samples: at most 268435456 are read");
}

#[test]
fn a_run_beyond_the_file_does_not_hide_another() {
    let mut file = File { layout: Layout::Fragments, ..File::default() }.bytes();
    let run = |offset: u32| full(b"trun", 0x201, &[words(&[1, offset, 5])]);
    let header = full(b"tfhd", 0x2_0000, &[words(&[1])]);
    file.extend(atom(b"moof", &[atom(b"traf", &[header, run(1 << 30), run(0)])]));
    assert_eq!(read(&file).unwrap().1.len(), 4);
}

#[test]
fn samples_in_another_file_are_left_out() {
    let dref = full(b"dref", 0, &[words(&[1]), full(b"url ", 0, &[b"file:///etc/passwd\0".to_vec()])]);
    let bytes = File { layout: Layout::End, ..File::default() }.bytes();
    let table = find(&bytes, b"stbl");
    let bytes = replace(&bytes, b"minf", &[atom(b"dinf", &[dref]), table].concat());
    let (movie, samples, _) = read(&bytes).unwrap();
    assert!(movie.tracks[0].external && samples.is_empty());
}

/// First box of a type, searched by the bytes of the type.
fn find(file: &[u8], kind: &[u8; 4]) -> Vec<u8> {
    let at = file.windows(4).position(|name| name == kind).unwrap() - 4;
    let length = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    file[at..at + length].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Promise: Hostile MP4 files are refused with the faulty box or sample, in bounded time and memory.
    #[test]
    fn changed_bytes_never_lead_outside_of_the_file(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        fragments: bool,
    ) {
        let layout = if fragments { Layout::Fragments } else { Layout::Front };
        let mut bytes = File { layout, ..two_tracks() }.bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok((movie, samples, _)) = read(&bytes) {
            prop_assert!(samples.iter().all(|sample| sample.extent.end() <= bytes.len() as u64));
            prop_assert!(samples.iter().all(|sample| sample.track < movie.tracks.len()));
        }
    }
}
