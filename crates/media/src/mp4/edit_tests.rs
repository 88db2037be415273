//! Edit lists: which samples are shown, and which a decoder needs for them.

use proptest::prelude::*;

use super::synthetic::{File, Layout, SampleShape, SampleTrack, audio, words};
use super::tests::{read, replace, sample};
use super::{Error, Movie, Sample};

/// File of one track of video with ticks of a millisecond.
fn video(samples: Vec<SampleShape>, edits: Vec<(u32, i32)>) -> File {
    let track = SampleTrack { samples, edits, ..File::default().tracks.remove(0) };
    File { tracks: vec![track], ..File::default() }
}

/// Pictures of 40 ms that are decoded in this order, by the numbers at which they are shown.
fn reordered(shown: &[i32]) -> Vec<SampleShape> {
    (0..).zip(shown).map(|(decoded, shown)| sample(10, 40, 40 * (shown - decoded), decoded == 0)).collect()
}

fn presented(samples: &[Sample]) -> Vec<i64> {
    samples.iter().map(|sample| (sample.decode_time as i64 + sample.composition_offset) / 40).collect()
}

fn samples(file: &[u8]) -> Vec<Sample> {
    read(file).expect("a good file").1
}

/// Reads a file of 20 pictures, 800 ms, with this edit list of version 1: durations, times and rates.
fn edited(movie_timescale: u32, edits: &[(u64, i64, u32)]) -> Result<(Movie, Vec<Sample>, u64), Error> {
    let file = video(reordered(&(0..20).collect::<Vec<_>>()), vec![(1, 0)]).bytes();
    let entries = edits.iter().flat_map(|(duration, time, rate)| {
        [duration.to_be_bytes().to_vec(), time.to_be_bytes().to_vec(), words(&[*rate])].concat()
    });
    let list = [words(&[1 << 24, edits.len() as u32]), entries.collect()].concat();
    // The file has its media first, so that other tables do not move it.
    let file = replace(&file, b"elst", &list);
    let file = replace(&file, b"mdhd", &words(&[0, 0, 0, 1000, 800, 0]));
    let header = [words(&[0, 0, 0, movie_timescale, 0]), vec![0; 80]].concat();
    read(&replace(&file, b"mvhd", &header))
}

/// Promise: Samples after the end of the first edit of an MP4 track are left out, and its duration is that of
/// the edit.
#[test]
fn a_track_ends_with_its_edit() {
    let pictures = |edits| {
        let mut file = video(reordered(&(0..20).collect::<Vec<_>>()), edits);
        file.layout = Layout::End;
        file.tracks.push(SampleTrack {
            timescale: 1000,
            handler: *b"soun",
            entry: audio(b"Opus", &[]),
            samples: vec![sample(5, 20, 0, true); 40],
            edits: file.tracks[0].edits.clone(),
        });
        let bytes = replace(&file.bytes(), b"mdhd", &words(&[0, 0, 0, 1000, 800, 0]));
        let (movie, found, _) = read(&bytes).expect("a good file");
        let count = |track| found.iter().filter(|sample| sample.track == track).count();
        (count(0), count(1), movie.tracks[0].duration_us())
    };
    assert_eq!(pictures(vec![(200, 80)]), (7, 14, Some(200_000)));
    assert_eq!(pictures(vec![(190, 80)]), (7, 14, Some(190_000)));
    assert_eq!(pictures(vec![(1, 0)]), (1, 1, Some(1_000)));
    // A duration of 0 is the rest of the track.
    assert_eq!(pictures(vec![(0, 80)]), (20, 40, Some(720_000)));
    assert_eq!(pictures(Vec::new()), (20, 40, Some(800_000)));
    assert_eq!(pictures(vec![(5000, 80)]), (20, 40, Some(720_000)));
}

/// Promise: Pictures of MP4 that are shown before the end of an edit come with those that are decoded before
/// them.
#[test]
fn pictures_before_the_end_have_their_references() {
    let order = [0, 4, 2, 1, 3, 8, 6, 5, 7, 12, 10, 9, 11];
    let shown = |end: u32| {
        let mut file = video(reordered(&order), vec![(40 * end, 0)]);
        file.layout = Layout::End;
        presented(&samples(&file.bytes()))
    };
    assert_eq!(shown(4), [0, 4, 2, 1, 3]);
    assert_eq!(shown(5), [0, 4, 2, 1, 3]);
    assert_eq!(shown(6), [0, 4, 2, 1, 3, 8, 6, 5]);
    assert_eq!(shown(7), [0, 4, 2, 1, 3, 8, 6, 5]);
    assert_eq!(shown(8), [0, 4, 2, 1, 3, 8, 6, 5, 7]);
    assert_eq!(shown(13), order.map(i64::from));
}

/// Promise: Edits of MP4 that continue the media of the first one are applied; others, and rates, are
/// counted.
#[test]
fn edits_that_continue_are_applied() {
    const NORMAL: u32 = 1 << 16;
    let shown = |edits: &[(u64, i64, u32)]| {
        let (movie, samples, _) = edited(1000, edits).expect("a good file");
        let track = &movie.tracks[0];
        (samples.len(), track.edits_left_out, track.edit_rates_left_out)
    };
    assert_eq!(shown(&[(200, 0, NORMAL), (200, 200, NORMAL)]), (10, 0, 0));
    assert_eq!(shown(&[(200, 0, NORMAL), (200, 201, NORMAL), (0, 401, NORMAL)]), (20, 0, 0));
    assert_eq!(shown(&[(200, 0, NORMAL), (200, 240, NORMAL)]), (5, 1, 0));
    assert_eq!(shown(&[(200, 0, NORMAL), (200, -1, NORMAL), (200, 200, NORMAL)]), (5, 2, 0));
    // 400 ms at half the rate show 200 ms.
    assert_eq!(shown(&[(400, 0, NORMAL / 2), (40, 200, NORMAL)]), (6, 0, 1));
    // A single picture, and media backward.
    assert_eq!(shown(&[(400, 0, 0), (40, 0, NORMAL)]), (20, 1, 1));
    assert_eq!(shown(&[(400, 200, (-65_536_i32) as u32)]), (20, 0, 1));
}

/// Promise: Hostile edit lists of MP4 are read in bounded time, without overflow.
#[test]
fn hostile_edits_are_bounded() {
    const NORMAL: u32 = 1 << 16;
    for timescale in [0, 1, u32::MAX] {
        for duration in [1, u64::MAX] {
            for start in [i64::MIN, -1, 0, 1, i64::MAX] {
                for rate in [0, 1, NORMAL, i32::MAX as u32, u32::MAX] {
                    let edit = (duration, start, rate);
                    let (movie, samples, _) = edited(timescale, &[edit, edit]).expect("a good file");
                    assert!(samples.len() <= 20);
                    let found = u128::from(movie.tracks[0].duration_us().expect("a duration"));
                    match u128::try_from(start) {
                        // An end shortens it, unless the edit runs backward or has no rate.
                        Ok(start) => {
                            let rest = 800_u128.saturating_sub(start) * 1000;
                            let has_end = (1..=i32::MAX as u32).contains(&rate);
                            assert!(
                                if has_end { found <= rest } else { found == rest },
                                "{found} of {edit:?}"
                            );
                        }
                        // Two delays.
                        Err(_) => {
                            let most = i64::MAX as u128;
                            let delay =
                                (u128::from(duration) * 1000 / u128::from(timescale.max(1))).min(most);
                            let late = (800 + (2 * delay).min(most)) * 1000;
                            assert_eq!(found, late.min(u64::MAX.into()), "{edit:?}");
                        }
                    }
                }
            }
        }
    }
    let many = vec![(0, 0, NORMAL); 10_000];
    assert_eq!(edited(1000, &many).expect("a good file").0.tracks[0].edits_left_out, 9999);
}

/// The edit list of a fragmented file need not include the fragments: its end is not applied.
#[test]
fn edits_of_fragmented_files_have_no_end() {
    let file = File { layout: Layout::Fragments, ..video(reordered(&[0, 1, 2, 3, 4, 5]), vec![(80, 40)]) };
    let (movie, samples, _) = read(&file.bytes()).expect("a good file");
    assert_eq!((movie.tracks[0].shift, movie.tracks[0].end, samples.len()), (-40, None, 6));
}

proptest! {
    /// The samples that come are the first ones of the file, up to the last one that is shown.
    #[test]
    fn samples_end_with_the_last_shown_one(
        offsets in proptest::collection::vec(0u32..12, 1..60),
        edit in 1u32..2500,
    ) {
        let shapes = offsets.iter().map(|offset| sample(10, 40, 40 * *offset as i32, false)).collect();
        let file = |edits| File { layout: Layout::End, ..video(shapes, edits) }.bytes();
        let bytes = file(vec![(edit, 0)]);
        let found = samples(&bytes);
        let shown = |index: usize| 40 * (index as u32 + offsets[index]) < edit;
        let expected = (0..offsets.len()).rev().find(|index| shown(*index)).map_or(0, |last| last + 1);
        prop_assert_eq!(found.len(), expected);
        for (index, found) in found.iter().enumerate() {
            prop_assert_eq!(found.decode_time, 40 * index as u64);
        }
    }
}
