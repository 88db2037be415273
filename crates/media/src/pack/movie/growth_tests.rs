//! Packing of MP4 files to which a recorder still appends fragments.

use proptest::prelude::*;

use super::tests::{fill, plan, samples, shapes, track};
use super::*;
use crate::container::Movie;
use crate::image::TrainRecord;
use crate::mp4::synthetic::{File, Layout, atom};
use crate::pack::testing::{Read, pack_growing, pack_movie, read};
use crate::payload::Format;
use crate::track::Next;

/// Fragmented file of video, and of sound if it has any frames.
fn recording(pictures: usize, frames: usize, samples_in_chunk: usize) -> Vec<u8> {
    let video = track(Format::H264, shapes(pictures, 900, 4800), Vec::new());
    let sound = track(Format::Aac, shapes(frames, 200, 1024), Vec::new());
    let tracks = [video, sound].into_iter().filter(|track| !track.samples.is_empty()).collect();
    let mut bytes = File { tracks, layout: Layout::Fragments, samples_in_chunk, long: false }.bytes();
    fill(&mut bytes, &[300, 40]);
    bytes
}

/// End of the box with the tracks: the shortest length with which a file can be opened.
fn opened(bytes: &[u8]) -> usize {
    let (movie, _) = samples(bytes);
    movie.description().end() as usize
}

/// Packs a recording that is found with these lengths. Returns its image, and the number of bytes that were read.
fn packed_growing(bytes: &[u8], lengths: &[usize]) -> (Read, u64) {
    let (movie, _) = samples(bytes);
    let mut plan = plan(bytes, &movie);
    let (first, later) = lengths.split_first().expect("a first length");
    plan.identity.size = *first as u64;
    let packer = Box::new(MoviePacker::growing(plan).expect("a plan that can be followed"));
    let (image, _, bytes_read) = pack_growing(bytes, plan, packer, later).expect("it can be packed");
    (read(&image).expect("an image as it should be"), bytes_read)
}

/// Trains without their places and marks of starts.
fn trains(image: &Read) -> Vec<TrainRecord> {
    let trains = image.trains_without_places().into_iter();
    trains.map(|train| TrainRecord { start: false, ..train }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Promise: A recording packed while it grows has the same packets as the finished one, wherever it was cut.
    #[test]
    fn growth_changes_no_packet(
        pictures in 1_usize..40, frames in 1_usize..150, samples_in_chunk in 1_usize..12,
        cuts in proptest::collection::vec(0.0..1.0_f64, 1..12),
    ) {
        let bytes = recording(pictures, frames, samples_in_chunk);
        let (movie, _) = samples(&bytes);
        let whole = read(&pack_movie(&bytes, plan(&bytes, &movie)).expect("it can be packed").0);
        let whole = whole.expect("an image as it should be");
        let begin = opened(&bytes);
        let cut = |part: f64| begin + ((bytes.len() - begin) as f64 * part) as usize;
        let mut lengths: Vec<usize> = cuts.into_iter().map(cut).collect();
        lengths.sort_unstable();
        let (grown, _) = packed_growing(&bytes, &lengths);
        prop_assert_eq!(&grown.packets, &whole.packets);
        prop_assert_eq!(trains(&grown), trains(&whole));
        prop_assert_eq!(grown.starts_us(), whole.starts_us());
        prop_assert_eq!(grown.header.duration_us, whole.header.duration_us);
        prop_assert_eq!(&grown.table.description, &whole.table.description);
    }
}

/// Promise: Following a recording reads each of its fragments once, however often it grows.
#[test]
fn fragments_are_read_once() {
    let bytes = recording(40, 150, 4);
    let begin = opened(&bytes);
    let (_, whole) = packed_growing(&bytes, &[bytes.len()]);
    let lengths: Vec<usize> = (begin..bytes.len()).step_by(97).collect();
    let (_, grown) = packed_growing(&bytes, &lengths);
    assert!(lengths.len() > 300 && bytes.len() > 60_000, "{} {}", lengths.len(), bytes.len());
    // With each growth, at most the header of the next box is read again.
    let most = whole + 16 * lengths.len() as u64;
    assert!(grown <= most, "{grown} bytes, of {most}");
}

/// Promise: A fragment is played when the recording has all of it, not before.
#[test]
fn fragments_wait_for_their_media() {
    let bytes = recording(10, 0, 5);
    let begin = opened(&bytes);
    let (movie, all) = samples(&bytes);
    let ends = [all[4].extent.end() as usize, all[9].extent.end() as usize];
    let mut plan = plan(&bytes, &movie);
    plan.identity.size = begin as u64;
    let mut packer = MoviePacker::growing(plan).expect("a plan that can be followed");
    let mut packets = 0;
    let mut packed_at = |packer: &mut MoviePacker, length: usize| {
        packer.grow(length as u64);
        loop {
            while let Some(segment) = packer.pop().expect("a good file") {
                packets += segment.trains.iter().map(TrainRecord::packets).sum::<u32>();
            }
            match packer.wanted() {
                Wanted::Bytes(wanted) => {
                    let bytes = &bytes[..length][wanted.offset as usize..wanted.end() as usize];
                    packer.take(bytes).expect("a good file");
                }
                Wanted::Nothing => {}
                Wanted::Growth(packed) => return (packets, packed),
                Wanted::End => panic!("it still grows"),
            }
        }
    };
    for length in [begin, begin + 7, begin + 100, ends[0] - 1] {
        assert_eq!(packed_at(&mut packer, length).0, 0, "{length} bytes");
    }
    let (first, packed) = packed_at(&mut packer, ends[0]);
    assert!(first > 0);
    assert_eq!((packed.fragments.longest_us, packed.fragments.last_us), (500_000, 500_000));
    assert_eq!(packed_at(&mut packer, ends[1] - 1).0, first);
    let (both, last) = packed_at(&mut packer, ends[1]);
    assert!(both > first && last.until_us > packed.until_us && last.fragments.last != packed.fragments.last);
}

/// Promise: A recording whose first fragment is in the tables of its movie box is played while that is written.
#[test]
fn the_first_fragment_may_be_in_the_tables() {
    let video = track(Format::H264, shapes(10, 900, 4800), Vec::new());
    let sound = track(Format::Aac, shapes(40, 200, 1024), Vec::new());
    let (tracks, layout) = (vec![video, sound], Layout::FrontOfFragments);
    let mut bytes = File { tracks, layout, samples_in_chunk: 4, long: false }.bytes();
    fill(&mut bytes, &[300, 40]);
    let (movie, all) = samples(&bytes);
    assert!(movie.may_grow() && all.len() == 50);
    let whole = read(&pack_movie(&bytes, plan(&bytes, &movie)).expect("it can be packed").0);
    let whole = whole.expect("an image as it should be");
    let lengths: Vec<usize> = (opened(&bytes)..bytes.len()).step_by(333).collect();
    let (grown, _) = packed_growing(&bytes, &lengths);
    assert_eq!(grown.packets, whole.packets);
    assert_eq!(trains(&grown), trains(&whole));
    let description = grown.table.description.movie().expect("a movie");
    assert!(description.warnings.first.is_empty(), "{:?}", description.warnings);
    // One that ends so is a cut file.
    let cut = &bytes[..all[30].extent.offset as usize];
    let (grown, _) = packed_growing(cut, &[opened(&bytes)]);
    let (movie, _) = samples(cut);
    let whole = read(&pack_movie(cut, plan(cut, &movie)).expect("it can be packed").0);
    assert_eq!(grown.packets, whole.expect("an image as it should be").packets);
}

/// Promise: A recording whose last fragment is cut at its end is played like a file that is cut there.
#[test]
fn a_cut_recording_is_a_cut_file() {
    let bytes = recording(10, 0, 5);
    let (_, all) = samples(&bytes);
    let cut = &bytes[..all[7].extent.offset as usize];
    let (grown, _) = packed_growing(cut, &[opened(&bytes), cut.len()]);
    let (movie, _) = samples(cut);
    let whole = read(&pack_movie(cut, plan(cut, &movie)).expect("it can be packed").0);
    assert_eq!(grown.packets, whole.expect("an image as it should be").packets);
    let description = grown.table.description.movie().expect("a movie").clone();
    assert_eq!(description.warnings.first.len(), 1, "{:?}", description.warnings);
}

/// Promise: A gap in the times of a recording changes where `npt=now-` is only for one fragment.
#[test]
fn a_gap_is_in_one_fragment() {
    let mut shapes = shapes(10, 900, 4800);
    shapes[4].duration = 3600 * 48_000;
    let tracks = vec![track(Format::H264, shapes, Vec::new())];
    let bytes = File { tracks, layout: Layout::Fragments, samples_in_chunk: 5, long: false }.bytes();
    let Movie::Mp4(movie) = samples(&bytes).0 else { panic!("another container") };
    let (mut samples, mut lengths) = (movie.samples().growing(), Vec::new());
    loop {
        match samples.next().expect("a good file") {
            Next::Read(wanted) => {
                samples
                    .take(bytes[wanted.offset as usize..wanted.end() as usize].to_vec())
                    .expect("a good file");
                lengths.push(samples.fragments().last_us);
            }
            Next::Sample(_) => {}
            Next::Growth => break,
            Next::End => panic!("it still grows"),
        }
    }
    lengths.dedup();
    assert_eq!(lengths, [0, 3_600_400_000, 500_000]);
    assert_eq!(samples.fragments().longest_us, 3_600_400_000);
}

/// The mark is that of the box that was read last, and the `moov` box has one, too.
#[test]
fn a_growing_file_is_recognized() {
    let bytes = recording(10, 0, 5);
    let begin = opened(&bytes);
    let Movie::Mp4(movie) = samples(&bytes).0 else { panic!("another container") };
    let (mut samples, mut marks) = (movie.samples().growing(), Vec::new());
    loop {
        marks.push(samples.fragments().mark.expect("a mark"));
        match samples.next().expect("a good file") {
            Next::Read(wanted) => {
                let read = bytes[wanted.offset as usize..wanted.end() as usize].to_vec();
                samples.take(read).expect("a good file");
            }
            Next::Sample(_) => {}
            Next::Growth => break,
            Next::End => panic!("it still grows"),
        }
    }
    marks.dedup();
    assert_eq!(marks.len(), 3, "{marks:?}");
    assert_eq!((marks[0].extent.offset, marks[1].extent.offset), (movie.extent.offset, begin as u64));
    for mark in marks {
        let mut now = bytes[mark.extent.offset as usize..mark.extent.end() as usize].to_vec();
        assert!(mark.is_of(&now) && !mark.is_of(&now[1..]));
        *now.last_mut().expect("it has bytes") ^= 1;
        assert!(!mark.is_of(&now));
    }
}

/// Promise: A recording that ends with an index of its fragments is complete at once.
#[test]
fn an_index_ends_a_recording() {
    let index = atom(b"mfra", &[atom(b"mfro", &[vec![0; 4], 24_u32.to_be_bytes().to_vec()])]);
    let bytes = [recording(10, 0, 5), index].concat();
    assert!(crate::mp4::has_fragment_index(&bytes[bytes.len() - 16..]));
    let (movie, _) = samples(&bytes);
    let mut packer = MoviePacker::growing(plan(&bytes, &movie)).expect("a plan that can be followed");
    loop {
        while packer.pop().expect("a good file").is_some() {}
        match packer.wanted() {
            Wanted::Bytes(wanted) => {
                packer.take(&bytes[wanted.offset as usize..wanted.end() as usize]).expect("a good file");
            }
            Wanted::Nothing => {}
            Wanted::Growth(packed) => panic!("it grows no more: {packed:?}"),
            Wanted::End => break,
        }
    }
}
