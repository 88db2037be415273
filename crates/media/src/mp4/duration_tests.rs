//! Durations of generated and of faulty files.

use proptest::prelude::*;

use super::synthetic::{File, Layout, SampleShape, atom, full, words};
use super::{Extent, MovieReader};

/// Duration of a file, and the number of bytes that were read for it; nothing if the file is no movie.
fn duration(file: &[u8]) -> Option<(Option<u64>, u64)> {
    let bytes = |wanted: Extent| file[wanted.offset as usize..wanted.end() as usize].to_vec();
    let mut reader = MovieReader::new(file.len() as u64);
    while let Some(wanted) = reader.wanted() {
        reader.take(bytes(wanted)).ok()?;
    }
    let mut reader = crate::container::Movie::Mp4(reader.finish().ok()?).duration();
    let mut read = 0;
    while let Some(wanted) = reader.wanted() {
        read += wanted.length;
        reader.take(bytes(wanted));
    }
    Some((reader.finish(), read))
}

fn duration_us(file: &[u8]) -> Option<u64> {
    duration(file).expect("a movie").0
}

/// Fragments of two pictures, each of so many bytes and 40 ms.
fn fragments(pictures: usize, length: u32) -> Vec<u8> {
    let mut file = File { layout: Layout::Fragments, ..File::default() };
    file.tracks[0].samples =
        vec![SampleShape { length, duration: 40, composition_offset: 0, sync: true }; pictures];
    file.bytes()
}

fn places(file: &[u8], kind: &[u8; 4]) -> Vec<usize> {
    (0..file.len() - 3).filter(|at| file[*at..].starts_with(kind)).collect()
}

fn rename(file: &mut [u8], from: &[u8; 4], to: &[u8; 4]) {
    for at in places(file, from) {
        file[at..at + 4].copy_from_slice(to);
    }
}

/// Moves all fragments to a later time.
fn begin_at(file: &mut [u8], ms: u32) {
    for at in places(file, b"tfdt") {
        let time: &mut [u8; 4] = (&mut file[at + 8..at + 12]).try_into().unwrap();
        *time = (u32::from_be_bytes(*time) + ms).to_be_bytes();
    }
}

/// Sets the duration of the movie header, whose timescale is 1000.
fn state(file: &mut [u8], duration: u32) {
    let at = places(file, b"mvhd")[0];
    file[at + 20..at + 24].copy_from_slice(&duration.to_be_bytes());
}

fn segment_index(timescale: u32, first: u32, references: &[(u32, u32)]) -> Vec<u8> {
    let entries = references.iter().flat_map(|(length, duration)| words(&[*length, *duration, 0]));
    full(b"sidx", 0, &[words(&[1, timescale, 0, first, references.len() as u32]), entries.collect()])
}

/// Random access index of one fragment.
fn access_index(fragment: u32) -> Vec<u8> {
    let table = full(b"tfra", 0, &[words(&[1, 0, 1, 0, fragment]), vec![1, 1, 1]]);
    let length = table.len() as u32 + 8 + 16;
    atom(b"mfra", &[table, full(b"mfro", 0, &[words(&[length])])])
}

/// Inserts a box before the first fragment.
fn with_box(file: &[u8], new: &[u8]) -> Vec<u8> {
    let (head, fragments) = file.split_at(places(file, b"moof")[0] - 4);
    [head, new, fragments].concat()
}

/// Promise: The duration of a fragmented movie without one is found at its end, from the time of the last
/// fragment.
#[test]
fn the_last_fragment_tells_the_duration() {
    let file = fragments(25, 1000);
    assert_eq!(duration_us(&file), Some(1_000_000));
    // Only the end of a long file is read.
    let (found, read) = duration(&fragments(3000, 1000)).unwrap();
    assert!(found == Some(120_000_000) && read < 200_000, "{found:?} in {read} bytes");
    let (found, read) = duration(&fragments(10, 300_000)).unwrap();
    assert!(found == Some(400_000) && read < 1_500_000, "{found:?} in {read} bytes");
}

/// Promise: The duration of a movie counts from its first sample.
#[test]
fn the_time_before_the_first_sample_does_not_count() {
    let mut file = fragments(25, 1000);
    begin_at(&mut file, 3_600_000);
    assert_eq!(duration_us(&file), Some(1_000_000));
    // Stated durations with and without the time before the first sample.
    for stated in [1000, 3_601_000] {
        state(&mut file, stated);
        assert_eq!(duration_us(&file), Some(1_000_000), "{stated}");
    }
    let mut late = File::default();
    late.tracks[0].edits = vec![(60_000, -1), (120, 0)];
    let mut file = late.bytes();
    let header = places(&file, b"mdhd")[0];
    file[header + 20..header + 24].copy_from_slice(&120_u32.to_be_bytes());
    assert_eq!(duration_us(&file), Some(120_000));
}

#[test]
fn durations_in_the_movie_box_are_used() {
    let mut file = fragments(25, 1000);
    state(&mut file, 5000);
    let (found, read) = duration(&file).unwrap();
    assert!(found == Some(5_000_000) && read < 1000, "{found:?} in {read} bytes");
    for unknown in [0, u32::MAX] {
        state(&mut file, unknown);
        assert_eq!(duration_us(&file), Some(1_000_000));
    }
    // A trex box becomes one of the duration with all fragments.
    let at = places(&file, b"trex")[0];
    file[at..at + 4].copy_from_slice(b"mehd");
    file[at + 8..at + 12].copy_from_slice(&7000_u32.to_be_bytes());
    assert_eq!(duration_us(&file), Some(7_000_000));
}

#[test]
fn indexes_tell_what_the_last_bytes_do_not() {
    // Without times, fragments tell nothing.
    let mut file = fragments(4, 100);
    rename(&mut file, b"tfdt", b"free");
    assert_eq!(duration_us(&file), None);
    let length = (file.len() - (places(&file, b"moof")[0] - 4)) as u32;
    let indexed = |index: &[u8]| duration_us(&with_box(&file, index));
    assert_eq!(indexed(&segment_index(90_000, 0, &[(length - 10, 90_000), (10, 45_000)])), Some(1_500_000));
    assert_eq!(
        indexed(&segment_index(90_000, 0, &[(length - 10, 90_000)])),
        None,
        "not to the end of the file"
    );
    assert_eq!(indexed(&segment_index(0, 0, &[(length, 90_000)])), None);
    // The last fragment is far from the end.
    let mut file = fragments(2, 5 << 20);
    assert_eq!(duration_us(&file), None);
    // Its durations count from the first sample, however late it is.
    let mut late = file.clone();
    begin_at(&mut late, 2000);
    let length = (late.len() - (places(&late, b"moof")[0] - 4)) as u32;
    let index = segment_index(90_000, 180_000, &[(length, 450_000)]);
    assert_eq!(duration_us(&with_box(&late, &index)), Some(5_000_000));
    let fragment = places(&file, b"moof")[0] as u32 - 4;
    file.extend(access_index(fragment));
    let (found, read) = duration(&file).unwrap();
    assert!(found == Some(80_000) && read < 200_000, "{found:?} in {read} bytes");
}

/// Promise: Durations that are too large, counts that are too high and offsets outside of the file are no
/// durations.
#[test]
fn hostile_durations_are_unknown() {
    let long = |kind: &[u8; 4], parts: &[u64]| {
        let parts = parts.iter().flat_map(|number| number.to_be_bytes()).collect();
        atom(kind, &[words(&[0x0100_0000]), parts])
    };
    let mut file = fragments(4, 100);
    rename(&mut file, b"tfdt", b"free");
    let header = places(&file, b"mvhd")[0] - 4;
    for duration in [1 << 63, u64::MAX - 1] {
        let mut hostile = file.clone();
        let mut stated = long(b"mvhd", &[0, 0, 0, 0]);
        stated[28..32].copy_from_slice(&1_u32.to_be_bytes());
        stated[32..40].copy_from_slice(&u64::to_be_bytes(duration));
        hostile.splice(header + 8..header + 8 + stated.len() - 8, stated[8..].to_vec());
        assert_eq!(duration_us(&hostile), None, "{duration}");
    }
    // A time of 2^63, and runs of four billion samples of the greatest duration.
    for time in [1 << 63, u64::MAX] {
        let run = full(b"trun", 0, &[words(&[u32::MAX])]);
        let fragment = full(b"tfhd", 0x18, &[words(&[1, u32::MAX, 1])]);
        let times = long(b"tfdt", &[time]);
        let moof = atom(b"moof", &[atom(b"traf", &[fragment, times, run.clone(), run])]);
        assert_eq!(duration_us(&[file.clone(), moof].concat()), None);
    }
    let all = u32::MAX;
    for index in [
        segment_index(1, all, &[(all, all); 1000]),
        // Its media begins 2^64 bytes after it.
        long(b"sidx", &[1 << 32 | 1, u64::MAX, u64::MAX, 1 << 32 | u64::from(all), u64::MAX]),
        full(b"sidx", 0, &[words(&[1, 1, 0, 0, 0xffff])]),
    ] {
        assert_eq!(duration_us(&with_box(&file, &index)), None);
    }
    for fragment in [0, all, file.len() as u32 - 1] {
        let mut hostile = [file.clone(), access_index(fragment)].concat();
        assert_eq!(duration_us(&hostile), None);
        let count = places(&hostile, b"tfra")[0] + 16;
        hostile[count..count + 4].copy_from_slice(&all.to_be_bytes());
        assert_eq!(duration_us(&hostile), None);
    }
}

proptest! {
    /// Promise: No file, however hostile, makes the search of a duration panic, leave the file, or read much
    /// of it.
    #[test]
    fn hostile_files_have_some_duration_or_none(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut: prop::sample::Index,
    ) {
        let file = fragments(6, 50);
        let length = (file.len() - (places(&file, b"moof")[0] - 4)) as u32;
        let mut file = with_box(&file, &segment_index(1000, 0, &[(length, 240)]));
        file.extend(access_index(places(&file, b"moof")[2] as u32 - 4));
        for (place, byte) in changes {
            let at = place.index(file.len());
            file[at] = byte;
        }
        file.truncate(file.len() - cut.index(40));
        if let Some((found, read)) = duration(&file) {
            prop_assert_ne!(found, Some(0));
            prop_assert!(read < 10_000, "{} bytes", read);
        }
    }
}
