//! Reads generated files: compares their samples, and checks the errors of faulty files.

use proptest::prelude::*;

use super::synthetic::{File, MAP_PID, PesPacket, access_unit, adts};
use super::*;
use crate::track::{Codec, Next, Sample, Track};

const VIDEO: (u16, u8) = (0x100, 0x1b);
const SOUND: (u16, u8) = (0x101, 0x0f);

/// Samples of a file with their bytes, and warnings.
struct Read {
    movie: Movie,
    samples: Vec<(Sample, Vec<u8>)>,
    warnings: Vec<String>,
}

impl Read {
    fn of(file: &[u8]) -> Result<Self, Error> {
        let mut reader = TracksReader::new(file.len() as u64);
        while let Some(wanted) = reader.wanted() {
            reader.take(&file[wanted.offset as usize..wanted.end() as usize])?;
        }
        let movie = reader.finish()?;
        let (mut reader, mut samples) = (movie.samples(), Vec::new());
        loop {
            match reader.next()? {
                Next::Read(wanted) => reader.take(&file[wanted.offset as usize..wanted.end() as usize])?,
                Next::Sample(sample) => {
                    samples.push((sample, reader.stored(sample.extent).expect("it is kept").to_vec()));
                    reader.release(sample.extent);
                    assert_eq!(reader.stored(sample.extent), None);
                }
                Next::Growth | Next::End => break,
            }
        }
        let warnings = reader.take_warnings().first.iter().map(|warning| warning.kind.to_string()).collect();
        Ok(Self { movie, samples, warnings })
    }

    fn of_track(&self, track: usize) -> impl Iterator<Item = &(Sample, Vec<u8>)> {
        self.samples.iter().filter(move |(sample, _)| sample.track == track)
    }

    fn presented(&self, track: usize) -> Vec<i64> {
        let own = &self.movie.tracks[track];
        self.of_track(track).map(|(sample, _)| own.presentation_us(sample)).collect()
    }
}

/// File with pictures of 40 ms and audio frames, with timestamps from `zero`.
fn clip(pictures: usize, zero: u64) -> File {
    let stamp = |ticks: u64| Some(((zero + ticks) % (1 << 33), (zero + ticks) % (1 << 33)));
    let mut packets = Vec::new();
    for index in 0..pictures {
        let data = access_unit(index % 10 == 0, &[vec![index as u8 | 1; 300]]);
        packets.push(PesPacket { stream: 0, times: stamp(3600 * index as u64), sized: false, data });
        // The duration of two frames of 1024 samples is 42.7 ms.
        let data = [adts(&[index as u8 | 1; 90]), adts(&[index as u8 | 2; 70])].concat();
        packets.push(PesPacket { stream: 1, times: stamp(3840 * index as u64), sized: true, data });
    }
    File { streams: vec![(VIDEO.0, VIDEO.1, vec![]), (SOUND.0, SOUND.1, vec![])], packets, tables_every: 8 }
}

fn track_names(tracks: &[Track]) -> Vec<String> {
    tracks.iter().map(|track| track.codec.name()).collect()
}

/// Promise: A wrap of PTS and DTS, after 26.5 hours, causes no jump in the tracks of a transport stream.
#[test]
fn a_wrap_changes_nothing() {
    let read = |zero| Read::of(&clip(50, zero).bytes()).expect("a good file");
    let (plain, wrapped) = (read(1000), read((1 << 33) - 90_000));
    assert_eq!(plain.samples, wrapped.samples);
    assert_eq!(track_names(&plain.movie.tracks), ["H.264", "AAC-LC"]);
    assert_eq!(plain.presented(0), (0..50).map(|index| index * 40_000).collect::<Vec<i64>>());
    assert_eq!(plain.of_track(1).count(), 100);
    assert!(plain.of_track(1).map(|(sample, _)| sample.decode_time).is_sorted());
    assert!(plain.warnings.is_empty(), "{:?}", plain.warnings);
    let syncs = plain.of_track(0).filter(|(sample, _)| sample.sync).count();
    assert_eq!(syncs, 5);
}

/// Promise: Tracks of joined transport stream recordings play on across the jump of their timestamps.
#[test]
fn a_jump_is_played_over() {
    let (first, second) = (clip(25, 5_000_000_000).bytes(), clip(25, 70_000).bytes());
    let read = Read::of(&[first, second].concat()).expect("a good file");
    let (pictures, sound) = (read.presented(0), read.presented(1));
    // The audio of the first recording is 67 ms longer than its video.
    let second = pictures[25];
    assert!((1_000_000..1_100_000).contains(&second), "{pictures:?}");
    let expected = |index: i64| if index < 25 { index * 40_000 } else { second + (index - 25) * 40_000 };
    assert_eq!(pictures, (0..50).map(expected).collect::<Vec<i64>>());
    assert_eq!((sound.len(), sound[50]), (100, second), "in step");
}

/// Promise: A track of a transport stream that is scrambled, or has no frames, is left out with the reason.
#[test]
fn tracks_without_frames_are_named() {
    let mut file = clip(20, 0);
    file.streams.push((0x102, 0x0f, vec![]));
    file.streams.push((0x103, 0x81, vec![]));
    file.packets.insert(4, PesPacket { stream: 2, times: Some((0, 0)), sized: true, data: adts(&[5; 300]) });
    let mut bytes = file.bytes();
    for packet in bytes.chunks_mut(188).filter(|packet| packet[1] & 0x1f == 1 && packet[2] == 2) {
        packet[3] |= 0x80;
    }
    let read = Read::of(&bytes).expect("two good tracks");
    assert_eq!(track_names(&read.movie.tracks), ["H.264", "AAC-LC"]);
    let faults: Vec<String> =
        read.movie.faults.iter().map(|(pid, error)| format!("{pid:#x}: {error}")).collect();
    assert_eq!(faults[0], "0x102: its packets are scrambled");
    assert_eq!(faults[1], "0x103: no AC-3 frame with a PTS in the first 8388608 bytes");
}

#[test]
fn other_files_are_refused() {
    assert!(matches!(Read::of(&[7; 5000]), Err(Error::NotTransportStream(_))));
    let bytes = clip(20, 0).bytes();
    let without_map: Vec<u8> = bytes
        .chunks(188)
        .filter(|packet| u16::from_be_bytes([packet[1] & 0x1f, packet[2]]) != MAP_PID)
        .flatten()
        .copied()
        .collect();
    assert_eq!(Read::of(&without_map).err(), Some(Error::NoProgramme));
}

/// Promise: PES packets without PTS or end, or with missing packets, use bounded memory and lose only their
/// own samples.
#[test]
fn damage_costs_the_samples_that_it_hits() {
    // No PTS at all.
    let mut file = clip(20, 0);
    file.packets.iter_mut().filter(|packet| packet.stream == 1).for_each(|packet| packet.times = None);
    let read = Read::of(&file.bytes()).expect("one good track");
    assert_eq!(track_names(&read.movie.tracks), ["H.264"]);
    // A picture without an end.
    let mut file = clip(20, 0);
    let mut endless = access_unit(false, &[vec![0x55; MAX_SAMPLE + 1000]]);
    endless.extend(access_unit(true, &[vec![3; 100]]));
    file.packets[10].data = endless;
    let read = Read::of(&file.bytes()).expect("good tracks");
    assert!(read.warnings.iter().any(|warning| warning.contains("is longer than")), "{:?}", read.warnings);
    assert!(read.samples.iter().all(|(sample, _)| sample.extent.length < 1000));
    assert_eq!(read.of_track(1).count(), 40);
    // All packets in the middle of the file are missing except those of tables.
    let bytes = clip(60, 0).bytes();
    let packets: Vec<&[u8]> = bytes.chunks(188).collect();
    let (third, half) = (packets.len() / 3, packets.len() / 2);
    let read = Read::of(&[&packets[..third], &packets[half..]].concat().concat()).expect("good tracks");
    let times = read.presented(0);
    assert!(times.is_sorted() && times.last() == Some(&(59 * 40_000)), "{times:?}");
}

/// Promise: A track that the programme map of a transport stream no longer has ends there, with a warning.
#[test]
fn a_track_that_is_gone_ends() {
    let (first, mut second) = (clip(20, 0), clip(20, 20 * 3600));
    second.streams[1].0 = 0x111;
    let read = Read::of(&[first.bytes(), second.bytes()].concat()).expect("good tracks");
    assert_eq!((read.of_track(0).count(), read.of_track(1).count()), (40, 40));
    assert!(read.warnings[0].starts_with("track 257 ends early: the programme map does not have it"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Promise: Samples of a transport stream come back byte for byte with their times, however PES packets divide them.
    #[test]
    fn samples_come_back(
        pictures in proptest::collection::vec(proptest::collection::vec(1usize..3000, 1..4), 2..30),
        sound in proptest::collection::vec(1usize..900, 1..40),
        frames_in_pes in 1usize..6,
        split in 1usize..2000,
        zero in 0u64..(1 << 33),
        lead in 0u64..3,
        sized: bool,
    ) {
        let stamp = |ticks: u64| (zero + ticks) % (1 << 33);
        let (mut expected, mut packets) = ((Vec::new(), Vec::new()), Vec::new());
        for (index, slices) in pictures.iter().enumerate() {
            let slices: Vec<Vec<u8>> = slices.iter().map(|length| vec![0x21 | index as u8; *length]).collect();
            let key = index % 7 == 0;
            let dts = stamp(3600 * index as u64);
            let pts = stamp(3600 * (index as u64 + lead));
            packets.push((3600 * index, PesPacket {
                stream: 0, times: Some((pts, dts)), sized, data: access_unit(key, &slices),
            }));
            expected.0.push(slices);
        }
        let frames: Vec<Vec<u8>> = sound.iter().map(|length| vec![7; *length]).collect();
        let stream: Vec<Vec<u8>> = frames.iter().map(|frame| adts(frame)).collect();
        // Bytes of several frames, of which the last continues in the next PES packet.
        let mut left = Vec::new();
        for (index, group) in stream.chunks(frames_in_pes).enumerate() {
            let whole = group.concat();
            let ticks = 1920 * index * frames_in_pes;
            let cut = whole.len() - split % group.last().map_or(1, Vec::len);
            let data = [&left[..], &whole[..cut]].concat();
            left = whole[cut..].to_vec();
            let at = stamp(ticks as u64);
            packets.push((ticks, PesPacket { stream: 1, times: Some((at, at)), sized: true, data }));
        }
        if let Some((_, last)) = packets.last_mut() {
            last.data.extend(left);
        }
        expected.1 = frames;
        packets.sort_by_key(|(ticks, _)| *ticks);
        let packets = packets.into_iter().map(|(_, packet)| packet).collect();
        let streams = vec![(VIDEO.0, VIDEO.1, vec![]), (SOUND.0, SOUND.1, vec![])];
        let read = Read::of(&File { streams, packets, tables_every: 5 }.bytes()).expect("a good file");
        prop_assert_eq!(track_names(&read.movie.tracks), ["H.264", "AAC-LC"]);
        prop_assert!(matches!(&read.movie.tracks[0].codec, Codec::H264(avc)
            if avc.sequence_sets == [synthetic::SEQUENCE_SET] && avc.picture_sets == [synthetic::PICTURE_SET]));
        for ((index, slices), (_, bytes)) in expected.0.iter().enumerate().zip(read.of_track(0)) {
            let mut wanted = Vec::new();
            let mut add = |unit: &[u8]| wanted.extend([&(unit.len() as u32).to_be_bytes(), unit].concat());
            if index % 7 == 0 {
                add(synthetic::SEQUENCE_SET);
                add(synthetic::PICTURE_SET);
            }
            for (number, slice) in slices.iter().enumerate() {
                let head = [if index % 7 == 0 { 0x65 } else { 0x41 }, if number == 0 { 0x80 } else { 0x40 }];
                add(&[&head[..], slice].concat());
            }
            prop_assert!(*bytes == wanted, "picture {}: {} bytes, not {}", index, bytes.len(), wanted.len());
        }
        prop_assert_eq!(read.of_track(0).count(), expected.0.len());
        let shown: Vec<i64> = (0..pictures.len() as i64).map(|index| (index + lead as i64) * 40_000).collect();
        prop_assert_eq!(read.presented(0), shown);
        let sound: Vec<&Vec<u8>> = read.of_track(1).map(|(_, bytes)| bytes).collect();
        prop_assert_eq!(sound, expected.1.iter().collect::<Vec<_>>());
        let begins: Vec<u64> = read.of_track(1).map(|(sample, _)| sample.decode_time).collect();
        let wanted: Vec<u64> = (0..begins.len() as u64).map(|index| 48_000 * 60 + 1024 * index).collect();
        prop_assert_eq!(begins, wanted);
    }

    /// Promise: Any bytes are refused or read as a transport stream with bounded memory, without a panic.
    #[test]
    fn damaged_files_are_read(changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..40)) {
        let mut bytes = clip(12, (1 << 33) - 9000).bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(read) = Read::of(&bytes) {
            let length: u64 = read.samples.iter().map(|(sample, _)| sample.extent.length).sum();
            prop_assert!(length <= 2 * bytes.len() as u64);
        }
    }
}
