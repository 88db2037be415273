//! Tests with generated and with faulty files.

use bytes::Bytes;
use proptest::prelude::*;

use super::synthetic::{BlockShape, File, Lacing, audio, avc_configuration, element, number, video};
use super::*;
use crate::payload::{Format, PcmEncoding, PcmFormat};
use crate::track::{Codec, Extent, Next, Pcm, PcmKind, Sample, Sound, TrackKind};

/// Returns the samples of a file, and the number of bytes that were read.
fn read(file: &[u8]) -> Result<(Segment, Vec<Sample>, u64), Error> {
    read_on(file).map(|(segment, samples, read, _)| (segment, samples, read))
}

/// Returns the same, and whether the file is truncated.
fn read_on(file: &[u8]) -> Result<(Segment, Vec<Sample>, u64, bool), Error> {
    let mut read = 0;
    let mut bytes = |wanted: Extent| {
        read += wanted.length;
        Bytes::copy_from_slice(&file[wanted.offset as usize..wanted.end() as usize])
    };
    let mut reader = SegmentReader::new(file.len() as u64);
    while let Some(wanted) = reader.wanted() {
        reader.take(bytes(wanted))?;
    }
    let segment = reader.finish()?;
    let (mut samples, mut found) = (segment.samples(), Vec::new());
    loop {
        match samples.next()? {
            Next::Read(wanted) => samples.take(bytes(wanted))?,
            Next::Sample(sample) => found.push(sample),
            Next::Growth | Next::End => return Ok((segment, found, read, samples.truncated())),
        }
    }
}

fn block(track: u8, time: u64, frames: &[usize]) -> BlockShape {
    BlockShape { track, time, frames: frames.to_vec(), ..BlockShape::default() }
}

/// Track of a file with a single track.
fn track(entry: Vec<u8>) -> crate::track::Track {
    let file = File { tracks: vec![entry], blocks: Vec::new(), ..File::default() };
    read(&file.bytes()).unwrap().0.tracks.remove(0)
}

/// File with video at 25 frames per second, in which frames are reordered, and AAC in laced blocks.
fn two_tracks() -> File {
    let picture = |(index, time): (usize, &u64)| BlockShape {
        key: index == 0 || index == 4,
        group: index % 2 == 1,
        ..block(1, *time, &[100 + index])
    };
    let pictures = [0, 120, 40, 80, 160, 280, 200, 240];
    let mut blocks: Vec<BlockShape> = pictures.iter().enumerate().map(picture).collect();
    for (index, lacing) in [Lacing::Xiph, Lacing::Ebml, Lacing::Fixed, Lacing::None].into_iter().enumerate() {
        let frames = match lacing {
            Lacing::Xiph => vec![300, 255, 7, 20],
            Lacing::Ebml => vec![200, 9, 90, 40],
            Lacing::Fixed => vec![50; 4],
            Lacing::None => vec![30],
        };
        // The duration of four frames of AAC is 85.3 ms, which is rounded in the file.
        let time = [0, 85, 171, 256][index];
        blocks.insert(index * 2, BlockShape { lacing, ..block(2, time, &frames) });
    }
    let tracks = vec![
        video(1, "V_MPEG4/ISO/AVC", &avc_configuration(), &element(0x22_b59c, b"ger")),
        audio(2, "A_AAC", &[0x11, 0x90], &number(0x56aa, 21_333_333)),
    ];
    File { tracks, blocks, blocks_in_cluster: 5, ..File::default() }
}

/// Promise: Samples of Matroska blocks are found as extents, in decode order across tracks, whatever the
/// lacing.
#[test]
fn samples_are_where_the_blocks_are() {
    for (unknown_sizes, tracks_last) in [(false, false), (true, false), (false, true)] {
        let file = File { unknown_sizes, tracks_last, ..two_tracks() };
        let bytes = file.bytes();
        let (segment, samples, _) = read(&bytes).unwrap();
        let tables = &bytes[segment.extent.offset as usize..segment.extent.end() as usize];
        assert!(tables == element(0x1654_ae6b, &file.tracks.concat()), "{:?}", segment.extent);
        assert_eq!(samples.len(), 8 + 13);
        let times: Vec<i64> =
            samples.iter().map(|found| segment.tracks[found.track].decode_us(found)).collect();
        assert!(times.is_sorted(), "{times:?}");
        for (index, number) in [(0, 1), (1, 2)] {
            let found = samples.iter().filter(|found| found.track == index);
            let blocks = file.blocks.iter().filter(|block| block.track == number);
            let lengths: Vec<usize> = blocks.flat_map(|block| block.frames.clone()).collect();
            assert_eq!(found.clone().count(), lengths.len());
            for (frame, (found, length)) in found.zip(lengths).enumerate() {
                let content = &bytes[found.extent.offset as usize..found.extent.end() as usize];
                assert_eq!(content, vec![frame as u8; length], "track {number}");
            }
        }
    }
}

/// Promise: Frames of Matroska have evenly spaced decode times, not later than their presentation times.
#[test]
fn decode_times_are_those_of_presentation_in_order() {
    let (segment, samples, _) = read(&two_tracks().bytes()).unwrap();
    let pictures: Vec<&Sample> = samples.iter().filter(|found| found.track == 0).collect();
    let presented = |found: &&Sample| segment.tracks[0].presentation_us(found) / 1000;
    assert_eq!(pictures.iter().map(presented).collect::<Vec<_>>(), [0, 120, 40, 80, 160, 280, 200, 240]);
    // The first frame is decoded before 0, because a frame precedes another that is shown before it.
    let decoded = |found: &&Sample| segment.tracks[0].decode_us(found) / 1000;
    let decoded: Vec<i64> = pictures.iter().map(decoded).collect();
    assert_eq!(decoded, [-40, 0, 40, 80, 120, 160, 200, 240]);
    let sync: Vec<usize> = (0..8).filter(|index| pictures[*index].sync).collect();
    assert_eq!(sync, [0, 4]);
    assert!(pictures.iter().all(|found| found.duration == 40));
}

/// Promise: Frames of Matroska have evenly spaced decode times, not later than their presentation times.
#[test]
fn decode_times_begin_before_0_whatever_is_stated() {
    for (fields, depth) in
        [(number(0x23_e383, 40_000_000), 2), (Vec::new(), 2), (number(0x23_e383, 40_000_000), 0)]
    {
        let mut file = two_tracks();
        file.tracks[0] = video(1, "V_MPEG4/ISO/AVC", &avc_configuration(), &fields);
        file.blocks.retain(|block| block.track == 1);
        // A pyramid of B-frames, or none.
        let order = if depth == 0 { [0, 1, 2, 3, 4, 5, 6, 7] } else { [0, 4, 2, 1, 3, 7, 6, 5] };
        for (block, number) in file.blocks.iter_mut().zip(order) {
            block.time = number * 40;
        }
        let (segment, samples, _) = read(&file.bytes()).unwrap();
        let decoded = samples.iter().map(|found| segment.tracks[0].decode_us(found) / 1000);
        assert!(decoded.eq((0..8).map(|index| (index - depth) * 40)), "{samples:?}");
    }
}

#[test]
fn the_last_picture_lasts_as_long_as_the_file_states() {
    let mut file = two_tracks();
    file.tracks[0] = video(1, "V_VP9", &[], &number(0x23_e383, 40_000_000));
    let (segment, samples, _) = read(&file.bytes()).unwrap();
    let video: Vec<&Sample> = samples.iter().filter(|found| found.track == 0).collect();
    assert!(video.iter().map(|found| found.decode_time).is_sorted());
    assert_eq!((video[7].duration, segment.tracks[0].shift), (40, 0));
}

/// Promise: Times of Matroska sound, which the file rounds, are restored exactly, also within laces.
#[test]
fn times_of_sound_are_exact() {
    let (segment, samples, _) = read(&two_tracks().bytes()).unwrap();
    let sound = &segment.tracks[1];
    assert_eq!((sound.timescale, sound.shift), (48_000, -1024));
    let times = samples.iter().filter(|found| found.track == 1);
    for (index, found) in times.enumerate() {
        assert_eq!((found.decode_time, found.duration), (1024 * index as u64, 1024));
        assert_eq!((found.composition_offset, found.sync, found.count), (0, true, 1));
    }
}

#[test]
fn a_gap_in_sound_stays_one() {
    let mut file = two_tracks();
    file.blocks.retain(|block| block.track == 2);
    file.blocks[3].time += 2;
    let (_, samples, _) = read(&file.bytes()).unwrap();
    assert_eq!(samples[12].decode_time, 258 * 48);
}

#[test]
fn laces_of_unknown_frames_share_the_time_to_the_next_block() {
    let lace = |time| BlockShape { lacing: Lacing::Fixed, ..block(1, time, &[10; 4]) };
    let file = File {
        tracks: vec![audio(1, "A_OPUS", &[], &[])],
        blocks: vec![lace(0), lace(80), lace(160)],
        ..File::default()
    };
    let (_, samples, _) = read(&file.bytes()).unwrap();
    let times: Vec<u64> = samples.iter().map(|found| found.decode_time).collect();
    assert_eq!(times[..9], [0, 960, 1920, 2880, 3840, 4800, 5760, 6720, 7680]);
    assert_eq!(times.len(), 12);
}

#[test]
fn tracks_are_described() {
    let (segment, ..) = read(&two_tracks().bytes()).unwrap();
    let [video, sound] = segment.tracks.as_slice() else { panic!("two tracks") };
    assert_eq!((segment.document, video.id, sound.id), (DocumentType::Matroska, 1, 2));
    assert_eq!((video.kind, video.picture), (TrackKind::Video, Some((64, 48))));
    assert_eq!((video.language.as_deref(), sound.language.as_deref()), (Some("ger"), Some("eng")));
    assert_eq!(video.codec.profile().as_deref(), Some("Main 3.0"));
    assert_eq!(sound.codec.name(), "AAC-LC");
    assert_eq!(sound.sound, Some(Sound { channels: 2, sample_rate: 48_000 }));
}

/// Promise: Matroska codecs from H.264 to PCM are read with their configurations; other codecs are named.
#[test]
fn codecs_are_read_by_their_identifiers() {
    let sound = |codec: &str, private: &[u8]| track(audio(1, codec, private, &[]));
    let picture = |codec: &str, private: &[u8]| track(video(1, codec, private, &[]));
    let l16 = Format::Pcm(PcmFormat { encoding: PcmEncoding::L16, channels: 2, sample_rate: 48_000 });
    let encoding = PcmEncoding::L16Little;
    let little = Format::Pcm(PcmFormat { encoding, channels: 2, sample_rate: 48_000 });
    let a_law = Format::Pcm(PcmFormat { encoding: PcmEncoding::Pcma, channels: 2, sample_rate: 48_000 });
    let mu_law = Format::Pcm(PcmFormat { encoding: PcmEncoding::Pcmu, channels: 2, sample_rate: 48_000 });
    for (track, format) in [
        (sound("A_OPUS", b"OpusHead"), Format::Opus),
        (sound("A_MPEG/L3", &[]), Format::MpegAudio),
        (sound("A_AC3", &[]), Format::Ac3),
        (sound("A_PCM/INT/BIG", &[]), l16),
        (sound("A_PCM/INT/LIT", &[]), little),
        (sound("A_MS/ACM", &[6, 0]), a_law),
        (sound("A_MS/ACM", &[7, 0]), mu_law),
        (sound("A_MS/ACM", &[0x55, 0]), Format::MpegAudio),
        (picture("V_VP8", &[]), Format::Vp8),
        (picture("V_VP9", &[1, 1, 2]), Format::Vp9),
        (picture("V_AV1", &[0x81, 0x08, 0, 0]), Format::Av1),
    ] {
        assert_eq!(Format::of(&track), Ok(format), "{:?}", track.codec);
    }
    assert_eq!(picture("V_VP9", &[2, 1, 31, 1, 1, 2]).codec, Codec::Vp9(Some(2)));
    assert_eq!(picture("V_AV1", &[0x81, 0x08, 0, 0]).codec.profile().as_deref(), Some("Main 4.0"));
    let little = Pcm { bits: 16, big_endian: false, kind: PcmKind::Signed };
    assert_eq!(sound("A_PCM/INT/LIT", &[]).codec, Codec::Pcm(little));
    for (track, reason) in [
        (sound("A_PCM/FLOAT/IEEE", &[]), "PCM 16 bit float little-endian is not supported: ffmpeg"),
        (sound("A_VORBIS", &[]), "no RTP payload format for A_VORBIS"),
        (sound("A_AAC", &[]), "A_AAC without a valid configuration"),
        (picture("V_MPEG4/ISO/AVC", &[1]), "V_MPEG4/ISO/AVC without a valid configuration"),
        (picture("V_MPEGH/ISO/HEVC", &[]), "V_MPEGH/ISO/HEVC without a valid configuration"),
        (picture("\x1b[31m", &[]), "no RTP payload format for [31m"),
    ] {
        let found = Format::of(&track).unwrap_err().to_string();
        assert!(found.starts_with(reason), "{found}");
    }
    let mut many = sound("A_PCM/INT/BIG", &[]);
    many.sound = many.sound.map(|sound| Sound { channels: 30, ..sound });
    assert_eq!(Format::of(&many).unwrap_err().to_string(), "30 channels: 1 to 21 are supported");
}

/// Promise: Encrypted and compressed Matroska tracks are reported as such and not played.
#[test]
fn encrypted_and_compressed_samples_are_refused() {
    let encodings = |fields: Vec<u8>| element(0x6d80, &element(0x6240, &fields));
    let stripped = [number(0x4254, 3), element(0x4255, &[0x0b, 0x77])].concat();
    for (fields, reason) in [
        (element(0x5034, &stripped), "its samples are compressed by the container"),
        (element(0x5034, &[]), "its samples are compressed by the container"),
        ([number(0x5033, 1), element(0x5035, &[])].concat(), "its samples are encrypted"),
    ] {
        let found = Format::of(&track(audio(1, "A_AC3", &[], &encodings(fields)))).unwrap_err().to_string();
        assert!(found.starts_with(reason), "{found}");
    }
}

/// Promise: Only block headers of Matroska files are read, no media.
#[test]
fn media_is_not_read() {
    for unknown_sizes in [false, true] {
        let mut file = File { unknown_sizes, ..two_tracks() };
        file.blocks.iter_mut().filter(|block| block.track == 1).for_each(|block| block.frames[0] = 3_000_000);
        let bytes = file.bytes();
        let (_, samples, read) = read(&bytes).unwrap();
        assert!(samples.len() == 21 && read < 2_000, "{read}");
    }
}

#[test]
fn cues_are_at_clusters_with_random_access_points() {
    let file = File { tracks_last: true, blocks_in_cluster: 1, ..File::default() };
    let bytes = file.bytes();
    let (segment, ..) = read(&bytes).unwrap();
    let [Cue { time_us: 0, track: 0, cluster }] = segment.cues[..] else { panic!("{:?}", segment.cues) };
    assert!(bytes[cluster as usize..].starts_with(&[0x1f, 0x43, 0xb6, 0x75]));
    assert_eq!(segment.cluster, Some(cluster));
    // Cues after the clusters are not searched if no SeekHead lists them.
    assert!(read(&File { tracks_last: false, ..file }.bytes()).unwrap().0.cues.is_empty());
}

#[test]
fn a_track_without_blocks_holds_up_no_other() {
    let mut file = File::default();
    file.tracks.push(audio(2, "A_OPUS", &[], &[]));
    file.blocks = (0..5000).map(|index| block(1, index * 40, &[10])).collect();
    let given = samples_of(&file.bytes(), |held| assert!(held < 1510, "{held} frames of more than a minute"));
    assert_eq!(given, 5000);
}

/// Decode times of all samples in order, and the number of samples of each track.
fn decode_times(file: &File) -> (Vec<i64>, Vec<usize>) {
    let (segment, samples, _) = read(&file.bytes()).unwrap();
    let times = samples.iter().map(|found| segment.tracks[found.track].decode_us(found)).collect();
    let count = |index| samples.iter().filter(|found| found.track == index).count();
    (times, (0..segment.tracks.len()).map(count).collect())
}

/// Pictures `apart` ms apart, whose depth is known or has to be derived, and audio frames of 20 ms.
fn slow_pictures(apart: u64, codec: &str, private: &[u8]) -> File {
    let tracks = vec![video(1, codec, private, &[]), audio(2, "A_OPUS", &[], &[])];
    let sound = (0..5000).map(|index| block(2, index * 20, &[10]));
    let mut blocks: Vec<BlockShape> =
        sound.chain((0..100_000 / apart).map(|index| block(1, index * apart, &[20]))).collect();
    blocks.sort_by_key(|block| block.time);
    File { tracks, blocks, blocks_in_cluster: 1, ..File::default() }
}

/// Promise: Samples of Matroska tracks are in decode order, also if pictures are seconds apart.
#[test]
fn slow_pictures_are_not_late() {
    for apart in [40, 80, 1000, 2000, 5000] {
        for (codec, private) in [("V_VP8", Vec::new()), ("V_MPEG4/ISO/AVC", avc_configuration())] {
            let (times, counts) = decode_times(&slow_pictures(apart, codec, &private));
            assert_eq!(counts, [100_000 / apart as usize, 5000]);
            assert!(times.is_sorted(), "{codec}, pictures {apart} ms apart");
        }
    }
}

/// Promise: A block with a wrong time leaves the samples of other Matroska tracks in decode order.
#[test]
fn a_block_of_another_age_puts_no_other_track_out_of_order() {
    let mut tracks = slow_pictures(1000, "V_VP8", &[]);
    tracks.tracks.push(element(0xae, &[number(0xd7, 3), number(0x83, 17)].concat()));
    for (track, index) in [(1, 100), (2, 101), (3, 102)] {
        let mut file = tracks.clone();
        file.blocks.insert(index, block(track, 1 << 40, &[30]));
        let (segment, samples, _) = read(&file.bytes()).unwrap();
        let others = samples.iter().filter(|found| segment.tracks[found.track].id != u32::from(track));
        let times: Vec<i64> = others.map(|found| segment.tracks[found.track].decode_us(found)).collect();
        assert!(times.len() >= 100 && times.is_sorted(), "a block of track {track}");
    }
}

/// Promise: A truncated or growing Matroska file is read up to its last whole block.
#[test]
fn a_file_may_end_anywhere() {
    for unknown_sizes in [false, true] {
        let file = File { unknown_sizes, ..two_tracks() };
        let whole = file.bytes();
        let (segment, all, _, truncated) = read_on(&whole).unwrap();
        assert!(!truncated && all.len() == 21);
        let cues = |bytes: &[u8]| bytes.windows(4).rposition(|id| id == [0x1c, 0x53, 0xbb, 0x6b]).unwrap();
        // A file of the first blocks has the same offsets as the whole file, except those of the cues.
        let end = |count| {
            let blocks = file.blocks[..count].to_vec();
            cues(&File { blocks, ..file.clone() }.bytes())
        };
        let ends: Vec<usize> = (1..=file.blocks.len()).map(end).collect();
        let first = segment.cluster.unwrap() as usize;
        // With unknown sizes, the file may end between elements: cluster, time and blocks.
        let starts = [first].into_iter().chain(ends.chunks(5).filter_map(|ends| ends.get(4).copied()));
        let mut between: Vec<usize> = starts.flat_map(|start| [start, start + 5, start + 22]).collect();
        between.extend(&ends);
        for length in first..whole.len() {
            let blocks = file.blocks.iter().zip(&ends).filter(|(_, end)| **end <= length);
            let frames: usize = blocks.map(|(block, _)| block.frames.len()).sum();
            let (_, samples, _, truncated) = read_on(&whole[..length]).unwrap();
            assert_eq!(samples.len(), frames, "{length} of {} bytes", whole.len());
            assert!(samples.iter().all(|sample| all.iter().any(|other| other.extent == sample.extent)));
            assert_eq!(truncated, !unknown_sizes || !between.contains(&length), "{length}: {between:?}");
        }
    }
}

/// Promise: If a file holds two Matroska documents, the second is ignored with a warning.
#[test]
fn another_document_ends_the_file() {
    let file = File { unknown_sizes: true, ..two_tracks() };
    let one = file.bytes();
    let cues = one.windows(4).rposition(|id| id == [0x1c, 0x53, 0xbb, 0x6b]).unwrap();
    for first in [&one[..], &one[..cues]] {
        let (_, samples, _, truncated) = read_on(&[first, &one].concat()).unwrap();
        assert!(truncated && samples.len() == 21, "{} samples", samples.len());
    }
}

#[test]
fn a_block_before_the_beginning_is_at_the_beginning() {
    let (segment, samples, _) = read(&cluster(
        &[element(0xa3, &[0x81, 0xff, 0xd8, 0x80, 9]), element(0xa3, &[0x81, 0, 40, 0, 9])].concat(),
    ))
    .unwrap();
    let times = samples.iter().map(|found| segment.tracks[0].presentation_us(found));
    assert!(times.eq([0, 40_000]));
    let mut file = File { blocks: vec![block(1, 100, &[9]), block(1, 60, &[9])], ..File::default() };
    file.tracks = vec![video(1, "V_MPEG4/ISO/AVC", &avc_configuration(), &[])];
    let (segment, samples, _) = read(&file.bytes()).unwrap();
    let times = samples.iter().map(|found| segment.tracks[0].presentation_us(found));
    assert!(times.eq([100_000, 60_000]));
}

#[test]
fn few_frames_are_held() {
    let mut file = File::default();
    file.tracks.push(audio(2, "A_OPUS", &[], &[]));
    file.blocks = (0..20_000).map(|index| block(1, index / 1000, &[1])).collect();
    let bytes = file.bytes();
    let mut most = 0;
    let given = samples_of(&bytes, |held| most = most.max(held));
    assert_eq!((given, most), (20_000, 1 << 14));
}

/// Number of samples. `see` is called with the number of frames that are kept.
fn samples_of(bytes: &[u8], mut see: impl FnMut(usize)) -> usize {
    let part = |wanted: Extent| bytes[wanted.offset as usize..wanted.end() as usize].to_vec();
    let mut reader = SegmentReader::new(bytes.len() as u64);
    while let Some(wanted) = reader.wanted() {
        reader.take(part(wanted)).unwrap();
    }
    let (mut samples, mut given) = (reader.finish().unwrap().samples(), 0);
    loop {
        match samples.next().unwrap() {
            Next::Read(wanted) => samples.take(part(wanted)).unwrap(),
            Next::Sample(_) => given += 1,
            Next::Growth | Next::End => return given,
        }
        see(samples.held());
    }
}

/// Promise: The profile of VP9 in WebM files without `CodecPrivate` is read from the first frame.
#[test]
fn the_first_frame_tells_the_profile_of_vp9() {
    let vp9 = |first: u8, private: &[u8]| {
        let tracks = vec![audio(2, "A_OPUS", &[], &[]), video(1, "V_VP9", private, &[])];
        let file = File { tracks, blocks: Vec::new(), ..File::default() };
        let blocks = [element(0xa3, &[0x82, 0, 0, 0x80, 9]), element(0xa3, &[0x81, 0, 0, 0x80, first, 9])];
        let cluster = element(0x1f43_b675, &[number(0xe7, 0), blocks.concat()].concat());
        let bytes = File { unknown_sizes: true, ..file }.bytes();
        let cues = element(0x1c53_bb6b, &[]).len();
        let (segment, samples, _) = read(&[&bytes[..bytes.len() - cues], &cluster].concat()).unwrap();
        assert_eq!(samples.len(), 2);
        segment.tracks[1].codec.clone()
    };
    for (first, profile) in [(0x82, Some(0)), (0xa2, Some(1)), (0x92, Some(2)), (0xb0, Some(3)), (0x42, None)]
    {
        assert_eq!(vp9(first, &[]), Codec::Vp9(profile));
    }
    assert_eq!(vp9(0xa2, &[1, 1, 2]), Codec::Vp9(Some(2)));
    let none = File { blocks: Vec::new(), ..File::default() };
    assert_eq!(read(&none.bytes()).unwrap().0.tracks[0].codec, Codec::Vp9(None));
}

/// Promise: Times of Matroska sound, which the file rounds, are restored exactly, also within laces.
#[test]
fn frames_of_sound_have_the_lengths_of_their_codecs() {
    let wave = |layer: u16| [&[0x50, 0][..], &[0; 16], &layer.to_le_bytes()].concat();
    let rate = |rate: f64| element(0xe1, &element(0xb5, &rate.to_be_bytes()));
    for (codec, private, fields, length) in [
        ("A_MS/ACM", vec![0x55, 0], rate(48_000.0), 1152),
        ("A_MS/ACM", vec![0x55, 0], rate(22_050.0), 576),
        ("A_MPEG/L3", vec![], rate(24_000.0), 576),
        ("A_MPEG/L2", vec![], rate(24_000.0), 1152),
        ("A_MPEG/L1", vec![], rate(48_000.0), 384),
        ("A_MS/ACM", wave(1), rate(48_000.0), 384),
        ("A_MS/ACM", wave(2), rate(24_000.0), 1152),
        ("A_MS/ACM", wave(4), rate(24_000.0), 576),
        // AAC-LC with frames of 1024 and 960 samples; HE-AAC at 24 and 48 kHz, and downsampled; LD and ELD.
        ("A_AAC", vec![0x11, 0x90], vec![], 1024),
        ("A_AAC", vec![0x11, 0x94], vec![], 960),
        ("A_AAC", vec![0x2b, 0x11, 0x88, 0x00], vec![], 2048),
        ("A_AAC", vec![0x2b, 0x11, 0x8a, 0x00], vec![], 1920),
        ("A_AAC", vec![0x29, 0x91, 0x88, 0x00], vec![], 1024),
        ("A_AAC", vec![0xb9, 0x90], vec![], 512),
        ("A_AAC", vec![0xb9, 0x94], vec![], 480),
        ("A_AAC", vec![0xf8, 0xe6, 0x20], vec![], 512),
        ("A_AAC", vec![0xf8, 0xe6, 0x30], vec![], 480),
    ] {
        let tracks = vec![audio(1, codec, &private, &fields)];
        let (_, samples, _) = read(&File { tracks, ..File::default() }.bytes()).unwrap();
        assert_eq!(samples[0].duration, length, "{codec} {private:02x?}");
    }
}

/// File with this data in its segment, after its tracks.
fn with(data: &[u8]) -> Vec<u8> {
    let file = File { blocks: Vec::new(), unknown_sizes: true, ..File::default() }.bytes();
    let cues = element(0x1c53_bb6b, &[]).len();
    [&file[..file.len() - cues], data].concat()
}

fn cluster(blocks: &[u8]) -> Vec<u8> {
    with(&element(0x1f43_b675, &[number(0xe7, 0), blocks.to_vec()].concat()))
}

/// Promise: Hostile Matroska files are refused with the faulty element, in bounded time and memory.
#[test]
fn hostile_files_are_refused() {
    let document = |kind: &[u8]| element(0x1a45_dfa3, &element(0x4282, kind));
    let simple = |data: &[u8]| cluster(&element(0xa3, data));
    let tracks = |entry: Vec<u8>| File { tracks: vec![entry], ..File::default() }.bytes();
    let many = |entry: Vec<u8>, count| File { tracks: vec![entry; count], ..File::default() }.bytes();
    for (name, file, expected) in [
        ("text", b"This is not a movie.".to_vec(), "not a Matroska or WebM file"),
        ("empty", Vec::new(), "not a Matroska or WebM file"),
        ("another document", document(b"other"), "not a Matroska or WebM file"),
        ("a header alone", document(b"webm"), "no Tracks element"),
        ("no tracks", [document(b"webm"), element(0x1853_8067, &[])].concat(), "no Tracks element"),
        (
            "a cluster without end before tracks",
            [document(b"webm"), vec![0x18, 0x53, 0x80, 0x67, 0xff, 0x1f, 0x43, 0xb6, 0x75, 0xff]].concat(),
            "no Tracks element",
        ),
        ("a track without number", tracks(element(0xae, &number(0x83, 1))), "its number is 0"),
        ("a number twice", many(video(1, "V_VP8", &[], &[]), 2), "another track has its number"),
        ("many tracks", many_tracks(), "too many tracks in this Matroska file: limit 64"),
        ("a long number", tracks(element(0xae, &element(0xd7, &[1; 9]))), "an integer has at most 8 bytes"),
        (
            "a short float",
            tracks(audio(1, "A_AC3", &[], &element(0xe1, &element(0xb5, &[1; 3])))),
            "0, 4 or 8",
        ),
        ("a tick of 0", File { tick_ns: 0, ..File::default() }.bytes(), "a tick has 1 to"),
        ("a tick of years", File { tick_ns: 1 << 62, ..File::default() }.bytes(), "a tick has 1 to"),
        ("a block without header", simple(&[0x81, 0]), "SimpleBlock at byte 207: it ends within its header"),
        ("a block without track", simple(&[]), "it ends within its header"),
        ("a lace without sizes", simple(&[0x81, 0, 0, 0x02, 9, 255]), "it ends within its header"),
        (
            "a lace that is too long",
            simple(&[0x81, 0, 0, 0x02, 1, 200, 1, 2, 3]),
            "frames are longer than it",
        ),
        ("an uneven lace", simple(&[0x81, 0, 0, 0x04, 1, 1, 2, 3]), "its frames are not of one size"),
        (
            "a lace below nothing",
            simple(&[0x81, 0, 0, 0x06, 2, 0x81, 0x80, 1]),
            "negative frame size in EBML lacing",
        ),
        (
            "a lace of no number",
            simple(&[0x81, 0, 0, 0x06, 2, 0, 0x80, 1]),
            "a size in its lace cannot be read",
        ),
        (
            "a block before its time",
            with(&element(0x1f43_b675, &element(0xa3, &[0x81, 0, 0, 0, 9]))),
            "Timestamp",
        ),
        (
            "a group before its time",
            with(&element(0x1f43_b675, &element(0xa0, &element(0xa1, &[0x81, 0, 0, 0, 9])))),
            "Timestamp",
        ),
        ("a long track number", simple(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), "its track number cannot be read"),
        ("places in a circle", [document(b"webm"), circle(0)].concat(), "no Tracks element"),
        ("a place beyond the file", [document(b"webm"), circle(1 << 40)].concat(), "no Tracks element"),
        ("an element of no size", cluster(&[0xa3, 0xff]), "its size is unknown"),
        (
            "an element longer than its parent",
            [cluster(&[0xa3, 0x90, 0x81]), vec![0xec; 40]].concat(),
            "ends after",
        ),
        ("an identifier of 8 bytes", with(&[1; 40]), "more than 4 bytes"),
        ("a size of 9 bytes", with(&[0xec, 0x00, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]), "its size cannot be read"),
        ("many elements", with(&[0xec, 0x80].repeat(100_001)), "too many elements before the first cluster"),
        (
            "many elements later",
            [cluster(&[]), [0xec, 0x80].repeat(100_001)].concat(),
            "too many elements in a row without media",
        ),
    ] {
        let found = read(&file).map(|(_, samples, _)| samples.len()).expect_err(name).to_string();
        assert!(found.contains(expected), "{name}: {found}");
    }
}

/// Segment whose seek head lists tracks, and another seek head at an offset.
fn circle(position: u64) -> Vec<u8> {
    let seek =
        |id: u32| element(0x4dbb, &[element(0x53ab, &id.to_be_bytes()), number(0x53ac, position)].concat());
    let places = [seek(0x114d_9b74), seek(0x1654_ae6b), seek(0x114d_9b74)].concat();
    element(0x1853_8067, &element(0x114d_9b74, &places))
}

#[test]
fn cues_are_bounded() {
    let cues = |point: &[u8], count| with(&element(0x1c53_bb6b, &point.repeat(count)));
    let point = [0xbb, 0x85, 0xb7, 0x83, 0xf7, 0x81, 1];
    let most = 1 << 18;
    assert_eq!(read(&cues(&point, most)).unwrap().0.cues.len(), most);
    assert!(read(&cues(&point, most + 1)).unwrap().0.cues.is_empty());
    let beyond = [0xbb, 0x8a, 0xb7, 0x88, 0xf7, 0x81, 1, 0xf1, 0x83, 0xff, 0xff, 0xff];
    assert!(read(&cues(&beyond, 1)).unwrap().0.cues.is_empty());
}

#[test]
fn an_element_longer_than_the_file_ends_it() {
    let huge = [0xec, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe];
    let (_, samples, _, truncated) = read_on(&with(&huge)).unwrap();
    assert!(samples.is_empty() && truncated);
}

fn many_tracks() -> Vec<u8> {
    let tracks = (1..=65).map(|number| video(number, "V_VP8", &[], &[])).collect();
    File { tracks, ..File::default() }.bytes()
}

#[test]
fn times_beyond_all_bounds_are_bounded() {
    let mut file = File { tick_ns: 1_000_000_000_000, ..two_tracks() };
    for block in &mut file.blocks {
        block.time = u64::MAX - block.time;
    }
    let (segment, samples, _) = read(&file.bytes()).unwrap();
    assert_eq!(samples.len(), 21);
    assert!(samples.iter().all(|found| segment.tracks[found.track].decode_us(found) > 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Promise: Hostile Matroska files are refused with the faulty element, in bounded time and memory.
    #[test]
    fn changed_bytes_never_lead_outside_of_the_file(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        unknown_sizes: bool,
        tracks_last: bool,
    ) {
        let tracks_last = tracks_last && !unknown_sizes;
        let mut bytes = File { unknown_sizes, tracks_last, ..two_tracks() }.bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok((segment, samples, _)) = read(&bytes) {
            prop_assert!(samples.iter().all(|sample| sample.extent.end() <= bytes.len() as u64));
            prop_assert!(samples.iter().all(|sample| sample.track < segment.tracks.len()));
            prop_assert!(samples.iter().map(|sample| sample.extent.length).sum::<u64>() <= bytes.len() as u64);
            let tracks = &segment.tracks;
            let times = samples.iter().map(|found| {
                (tracks[found.track].decode_us(found), tracks[found.track].presentation_us(found))
            });
            let least = times.clone().map(|(decoded, _)| decoded).min().unwrap_or(0);
            // Tracks do not stop waiting for each other within a minute.
            if times.clone().all(|(_, presented)| presented.saturating_sub(least) < 60_000_000)
                && tracks.iter().all(|track| matches!(track.kind, TrackKind::Video | TrackKind::Audio))
            {
                prop_assert!(times.map(|(decoded, _)| decoded).is_sorted());
            }
        }
    }
}
