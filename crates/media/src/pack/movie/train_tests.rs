//! Trains of packed movies: their padding, their groups of sound, and the number of calls that send them.

use super::tests::{packets, plan, shapes, track};
use super::*;
use crate::container::Movie;
use crate::image::{Error as ImageError, PathLimits, TrainRecord};
use crate::mp4::synthetic::{File, Layout, SampleShape};
use crate::pack::testing::{Read, pack_movie, read};
use crate::payload::Format;
use crate::rtp::{Header, Marker};

/// Limits of an Ethernet path.
const ETHERNET: PathLimits = PathLimits { payload: 1460, burst_us: 20_000 };

/// Packs a file with packets of full size.
fn image(file: &[u8], movie: &Movie) -> Vec<u8> {
    let plan = Plan { recipe: ETHERNET.tracks(), ..plan(file, movie) };
    pack_movie(file, plan).expect("it can be packed").0
}

/// Pictures of 25 a second: a random access point of 80,000 bytes every two seconds, and others of 5,000 to 30,000.
fn pictures(seconds: usize) -> Vec<SampleShape> {
    let length = |number: usize| match number % 50 {
        0 => 80_000,
        of_group => [30_000, 9_000, 5_000 + 97 * of_group as u32][of_group % 3],
    };
    let shape = |number| SampleShape {
        length: length(number),
        duration: 1920,
        composition_offset: 0,
        sync: number % 50 == 0,
    };
    (0..25 * seconds).map(shape).collect()
}

/// AAC of 128 kb/s: frames of 341 bytes, more or less.
fn sound(seconds: usize) -> Vec<SampleShape> {
    let shape = |number: usize| SampleShape {
        length: 341 + [0, 20, 37, 5, 60][number % 5] - [0, 43, 11][number % 3],
        duration: 1024,
        composition_offset: 0,
        sync: true,
    };
    (0..seconds * 48_000 / 1024).map(shape).collect()
}

fn movie(seconds: usize) -> (Vec<u8>, Movie) {
    let tracks = vec![
        track(Format::H264, pictures(seconds), Vec::new()),
        track(Format::Aac, sound(seconds), Vec::new()),
    ];
    let mut file = File { tracks, layout: Layout::Front, samples_in_chunk: 3, long: false }.bytes();
    let (movie, _) = super::tests::fill(&mut file, &[1 << 20]);
    (file, movie)
}

/// Returns the number of calls that send the trains in bursts of 100 ms: trains that are stored one after another leave
/// in one call if they are of one stream and size, up to 48 packets and 65,507 bytes.
fn calls(image: &Read) -> usize {
    let joins = |first: &TrainRecord, bytes: u32, packets: u32, next: &TrainRecord| {
        first.stream == next.stream
            && first.departure_us / 100_000 == next.departure_us / 100_000
            && (first.packet_size == next.packet_size
                || next.packets() == 1 && next.length < first.packet_size.into())
            && bytes.is_multiple_of(first.packet_size.into())
            && bytes + next.length <= 65_507
            && packets + next.packets() <= 48
    };
    let mut calls = 0;
    for trains in &image.trains {
        let mut rest = trains.as_slice();
        while let [first, others @ ..] = rest {
            let (mut bytes, mut packets) = (first.length, first.packets());
            let joined = others.iter().take_while(|next| {
                let joined = joins(first, bytes, packets, next);
                (bytes, packets) = (bytes + next.length, packets + next.packets());
                joined
            });
            rest = &others[joined.count()..];
            calls += 1;
        }
    }
    calls
}

/// Promise: A movie of 4 Mb/s with 25 pictures a second and AAC needs at most 17 calls a second in bursts of 100 ms.
#[test]
fn pictures_and_sound_need_few_calls() {
    let (file, movie) = movie(20);
    let image = read(&image(&file, &movie)).expect("a valid image");
    let calls = calls(&image);
    assert!((200..=20 * 17).contains(&calls), "{calls} calls in 20 seconds");
    let padding: u64 = image.trains.iter().flatten().map(|train| u64::from(train.padding)).sum();
    let media: u64 = image.header.payload_bytes - padding;
    assert!(padding > 0 && padding * 16 <= media, "{padding} bytes of padding for {media}");
    let sound = image.trains.iter().flatten().filter(|train| train.stream == 1);
    assert!(sound.clone().all(|train| train.marker == Marker::Each && train.departure_us % 200_000 == 0));
    assert!(sound.clone().count() <= 20 * 6);
    // Each other size takes a call to set the size of segments.
    let mut sizes: Vec<u16> =
        sound.filter(|train| train.packets() > 1).map(|train| train.packet_size).collect();
    sizes.dedup();
    assert!(sizes.len() <= 5, "{sizes:?}");
}

/// Promise: Sound departs up to 200 ms early and never late, and playback from a random access point has its sound.
#[test]
fn sound_departs_before_the_pictures_of_its_window() {
    let (file, movie) = movie(9);
    let image = read(&image(&file, &movie)).expect("a valid image");
    let stream = image.header.plan.streams[1];
    let mut presented = packets(&image, &stream).into_iter().map(|(header, _)| {
        u64::from(header.timestamp.wrapping_sub(stream.timestamp)) * 1_000_000 / u64::from(stream.clock_hz)
    });
    for train in image.trains.iter().flatten().filter(|train| train.stream == 1) {
        for due_us in presented.by_ref().take(train.packets() as usize) {
            // Timestamps are rounded down.
            let early = (due_us + 21).checked_sub(train.departure_us);
            assert!(early.is_some_and(|early| early <= 200_021), "{due_us} {train:?}");
        }
    }
    assert_eq!(presented.next(), None);
    for start in &image.table.starts {
        let train = &image.trains[start.segment as usize][start.train as usize];
        assert_eq!((train.stream, train.start, start.departure_us % 2_000_000), (1, true, 0));
    }
    assert_eq!(image.table.starts.len(), 5);
}

/// A random access point within a window begins a new group.
#[test]
fn groups_begin_at_random_access_points() {
    let tracks = vec![
        track(Format::H264, shapes(40, 500, 4800 * 3 / 5), Vec::new()),
        track(Format::Aac, sound(2), Vec::new()),
    ];
    let mut file = File { tracks, layout: Layout::Front, samples_in_chunk: 3, long: false }.bytes();
    let (movie, _) = super::tests::fill(&mut file, &[50]);
    let image = read(&image(&file, &movie)).expect("a valid image");
    // Random access points every 300 ms; groups restart only once in a second.
    let groups = image.trains.iter().flatten().filter(|train| train.stream == 1);
    let mut begins: Vec<u64> = groups.map(|train| train.departure_us / 1000).collect();
    begins.dedup();
    assert_eq!(begins[..8], [0, 200, 400, 600, 800, 1000, 1200, 1400]);
    assert!(image.table.starts.iter().any(|start| start.departure_us == 1_200_000));
}

/// Promise: Sound that is stored or timed far from the pictures is packed, without waiting for it.
#[test]
fn sound_that_is_missing_delays_nothing() {
    let late = SampleShape { duration: 48_000 * 5, ..sound(1)[0] };
    let frames = [vec![late], sound(2)].concat();
    let tracks =
        vec![track(Format::H264, pictures(10), Vec::new()), track(Format::Aac, frames.clone(), Vec::new())];
    let mut file = File { tracks, layout: Layout::Front, samples_in_chunk: 3, long: false }.bytes();
    let (movie, _) = super::tests::fill(&mut file, &[1 << 20]);
    let image = read(&image(&file, &movie)).expect("a valid image");
    let packets = packets(&image, &image.header.plan.streams[1]);
    let read: Vec<_> = packets.into_iter().map(|(_, packet)| packet).collect();
    let read = crate::payload::depacketize::depacketize(Format::Aac, &read).expect("frames");
    assert_eq!(read.len(), frames.len());
}

/// Promise: A wire image whose padding differs from its records is refused.
#[test]
fn inconsistent_padding_is_refused() {
    let (file, movie) = movie(1);
    let good = image(&file, &movie);
    let table = read(&good).expect("a valid image");
    let (entry, plan) = (table.table.segments[0], table.header.plan);
    let bytes = &good[entry.offset as usize..][..entry.length() as usize];
    let trains = &table.trains[0];
    let index = trains.iter().position(|train| train.padding > 0 && train.packets() > 2).expect("padding");
    let (train, record) = (trains[index], entry.data_length as usize + 32 * index);
    let refused = |change: &dyn Fn(&mut [u8])| {
        let mut forged = bytes.to_vec();
        change(&mut forged);
        let entry = crate::image::SegmentEntry { crc: crc32c::crc32c(&forged), ..entry };
        entry.trains(&plan, u64::MAX, &forged).expect_err("it is refused")
    };
    let recorded = |padding: u32| {
        refused(&|forged: &mut [u8]| {
            forged[record + 22..record + 24].copy_from_slice(&(padding as u16).to_le_bytes());
        })
    };
    assert!(matches!(recorded(0), ImageError::PacketHeader { .. }), "packets have the padding bit");
    assert!(matches!(recorded(train.packets() - 1), ImageError::Field { field: "flags", .. }));
    assert!(matches!(recorded(train.packets() * 255 + 1), ImageError::Field { field: "flags", .. }));
    assert!(matches!(recorded(u32::from(train.padding) + 1), ImageError::Padding { .. }));
    let last = (train.offset + u32::from(train.packet_size)) as usize - 1;
    for octet in [0, bytes[last] + 1] {
        let error = refused(&|forged: &mut [u8]| forged[last] = octet);
        assert!(matches!(error, ImageError::Padding { .. }), "{error}");
    }
    let header = Header::parse(&bytes[train.offset as usize..]).expect("a header");
    assert!(header.padding);
}

/// Promise: Playback from a random access point has the sound of all tracks, also where segments end.
#[test]
fn starts_have_all_groups_of_their_departure() {
    let tracks = vec![
        track(Format::H264, pictures(20), Vec::new()),
        track(Format::Aac, sound(20), Vec::new()),
        track(Format::Aac, sound(20), Vec::new()),
    ];
    let mut file = File { tracks, layout: Layout::Front, samples_in_chunk: 3, long: false }.bytes();
    let (movie, _) = super::tests::fill(&mut file, &[1 << 20]);
    let image = read(&image(&file, &movie)).expect("a valid image");
    assert_eq!(image.table.starts.len(), 10);
    for start in &image.table.starts {
        let trains = image.trains[start.segment as usize].iter().skip(start.train as usize);
        let groups = trains.take_while(|train| train.stream != 0);
        let streams: Vec<u8> = groups.map(|train| train.stream).collect();
        assert!(streams.contains(&1) && streams.contains(&2), "{start:?}: {streams:?}");
    }
    assert!(image.trains.len() > 5);
    let first: Vec<u8> = image.trains[0].iter().take(3).map(|train| train.stream).collect();
    assert_eq!(first, [1, 2, 0], "the first segment has the first picture");
}

/// Promise: Over time, padding adds at most a quarter to sound, however much its packets differ.
#[test]
fn padding_of_sound_is_bounded() {
    let shape = |number: usize| SampleShape {
        length: if number.is_multiple_of(10) { 240 } else { 3 },
        duration: 960,
        composition_offset: 0,
        sync: true,
    };
    let tracks = vec![
        track(Format::H264, pictures(20), Vec::new()),
        track(Format::Opus, (0..20 * 50).map(shape).collect(), Vec::new()),
    ];
    let mut file = File { tracks, layout: Layout::Front, samples_in_chunk: 3, long: false }.bytes();
    let (movie, _) = super::tests::fill(&mut file, &[1 << 20]);
    let image = read(&image(&file, &movie)).expect("a valid image");
    let sound = image.trains.iter().flatten().filter(|train| train.stream == 1);
    let padding: usize = sound.map(|train| usize::from(train.padding)).sum();
    let media = 100 * 240 + 900 * 3;
    assert!(padding <= media / 4 + (1 << 10), "{padding} bytes for {media}");
}
