//! Durations of generated and of faulty files.

use proptest::prelude::*;

use super::SegmentReader;
use super::synthetic::{BlockShape, File, element, video};
use crate::track::Extent;

/// Duration of a file, and the number of bytes that were read for it; nothing if the file is no movie.
fn duration(file: &[u8]) -> Option<(Option<u64>, u64)> {
    let bytes = |wanted: Extent| file[wanted.offset as usize..wanted.end() as usize].to_vec();
    let mut reader = SegmentReader::new(file.len() as u64);
    while let Some(wanted) = reader.wanted() {
        reader.take(bytes(wanted)).ok()?;
    }
    let mut reader = crate::container::Movie::Matroska(reader.finish().ok()?).duration();
    let mut read = 0;
    while let Some(wanted) = reader.wanted() {
        read += wanted.length;
        reader.take(bytes(wanted));
    }
    Some((reader.finish(), read))
}

/// Pictures of 40 ms from this time on.
fn file(from_ms: u64, pictures: u64, length: usize) -> File {
    let interval = super::synthetic::number(0x23_e383, 40_000_000);
    let block =
        |index| BlockShape { time: from_ms + 40 * index, frames: vec![length], ..BlockShape::default() };
    File {
        tracks: vec![video(1, "V_VP8", &[], &interval)],
        blocks: (0..pictures).map(block).collect(),
        ..File::default()
    }
}

/// Promise: The duration of a Matroska file without one is found at its end, from its last cluster.
#[test]
fn the_last_cluster_tells_the_duration() {
    for unknown_sizes in [false, true] {
        for from_ms in [0, 3_600_000] {
            let file = File { unknown_sizes, ..file(from_ms, 25, 100) };
            let (found, read) = duration(&file.bytes()).unwrap();
            assert!(found == Some(1_000_000) && read < 10_000, "{found:?} in {read} bytes");
        }
    }
    let (found, read) = duration(&file(0, 3000, 1000).bytes()).unwrap();
    assert!(found == Some(120_000_000) && read < 200_000, "{found:?} in {read} bytes");
    assert_eq!(duration(&file(0, 2, 9 << 20).bytes()).unwrap().0, None, "the last cluster is too long");
    assert_eq!(duration(&file(0, 0, 1).bytes()).unwrap().0, None);
}

/// Promise: The duration of a Matroska file counts from its first block, whether or not the file counts so.
#[test]
fn the_time_before_the_first_block_does_not_count() {
    for (from_ms, stated) in [(0, 1000.0), (60_000, 1000.0), (60_000, 61_000.0)] {
        let bytes = file(from_ms, 25, 100).bytes();
        // The duration follows the segment's header, in another element of information.
        let info = element(super::id::INFO.0, &element(super::id::DURATION.0, &f64::to_be_bytes(stated)));
        let at = bytes.windows(4).position(|bytes| bytes == super::id::SEGMENT.0.to_be_bytes()).unwrap() + 12;
        let mut stated = [&bytes[..at], &info, &bytes[at..]].concat();
        let length = (stated.len() - at) as u64 | 0x0100_0000_0000_0000;
        stated[at - 8..at].copy_from_slice(&length.to_be_bytes());
        assert_eq!(duration(&stated).unwrap().0, Some(1_000_000), "{from_ms}");
    }
}

proptest! {
    /// Promise: No file, however hostile, makes the search of a duration panic, leave the file, or read much
    /// of it.
    #[test]
    fn hostile_files_have_some_duration_or_none(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        unknown_sizes: bool,
    ) {
        let mut file = File { unknown_sizes, ..file(5000, 9, 50) }.bytes();
        for (place, byte) in changes {
            let at = place.index(file.len());
            file[at] = byte;
        }
        if let Some((found, read)) = duration(&file) {
            prop_assert_ne!(found, Some(0));
            prop_assert!(read < 10_000, "{} bytes", read);
        }
    }
}
