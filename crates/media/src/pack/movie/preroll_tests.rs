//! Movies that were cut without encoding: pictures before the beginning are sent, but not shown.

use proptest::prelude::*;

use super::tests::{check, fill, packed, packets, track};
use crate::mp4::synthetic::{File, Layout, SampleShape};
use crate::pack::testing::Read;
use crate::payload::Format;

/// Ticks per second of the tracks of these tests.
const TIMESCALE: u32 = 48_000;

/// Duration of a picture.
const PICTURE_US: u64 = 40_000;

/// Longest burst that a receiver is expected to take at once.
const WINDOW_US: u64 = 40_000;

/// File that begins `hidden_ms` after its only random access point before the cut: pictures of 40 ms and of
/// these lengths in turn, with AAC.
fn cut(hidden_ms: u32, shown_ms: u32, lengths: &[u32]) -> File {
    let length_ms = hidden_ms + shown_ms;
    let picture = |number: u32| SampleShape {
        length: lengths[number as usize % lengths.len()],
        duration: TIMESCALE / 25,
        composition_offset: 0,
        sync: number == 0,
    };
    let frame = SampleShape { length: 300, duration: 1024, composition_offset: 0, sync: true };
    let edits = vec![(shown_ms, (hidden_ms * (TIMESCALE / 1000)) as i32)];
    let tracks = vec![
        track(Format::H264, (0..length_ms / 40).map(picture).collect(), edits.clone()),
        track(Format::Aac, vec![frame; (length_ms * (TIMESCALE / 1000) / 1024) as usize], edits),
    ];
    File { tracks, layout: Layout::Front, samples_in_chunk: 3, long: false }
}

fn image(file: &File) -> Read {
    let mut bytes = file.bytes();
    let (movie, _) = fill(&mut bytes, &[1 << 20]);
    packed(&bytes, &movie)
}

/// Most bytes that depart in a window of 40 ms.
fn most_in_a_window(image: &Read) -> u64 {
    let trains: Vec<_> = image.trains.iter().flatten().collect();
    let sums = trains.iter().enumerate().map(|(index, first)| {
        let within =
            trains[index..].iter().take_while(|train| train.departure_us - first.departure_us < WINDOW_US);
        within.map(|train| u64::from(train.length)).sum()
    });
    sums.max().unwrap_or(0)
}

/// Presentation time and departure of each train of a stream, in microseconds.
fn times(image: &Read, stream: usize) -> Vec<(i64, u64)> {
    let plan = &image.header.plan.streams[stream];
    let trains = image.trains.iter().flatten().filter(|train| usize::from(train.stream) == stream);
    let time = |timestamp: u32| {
        i64::from(timestamp.wrapping_sub(plan.timestamp) as i32) * 1_000_000 / i64::from(plan.clock_hz)
    };
    trains.map(|train| (time(train.timestamp), train.departure_us)).collect()
}

/// Promise: Pictures before the beginning of a cut movie are sent at most nine times as fast as the movie.
#[test]
fn hidden_pictures_are_no_flood() {
    // 4 Mb/s; 5 s are hidden.
    let image = image(&cut(5000, 5000, &[20_000]));
    let pictures =
        packets(&image, &image.header.plan.streams[0]).iter().filter(|(header, _)| header.marker).count();
    assert_eq!(pictures, 250, "all pictures are sent");
    let average = 4_000_000 / 8 * WINDOW_US / 1_000_000;
    let most = most_in_a_window(&image);
    assert!((average..=9 * average + average / 2).contains(&most), "{most} bytes, {average} on average");
    let last_hidden = times(&image, 0).into_iter().filter(|(time, _)| *time < 0).map(|(_, at)| at).max();
    assert!(last_hidden.is_some_and(|at| at <= 650_000), "{last_hidden:?}");
}

/// Promise: Picture and sound of a cut movie depart in step, and a second after its beginning at their times.
#[test]
fn picture_and_sound_of_a_cut_movie_are_in_step() {
    let image = image(&cut(5000, 5000, &[20_000]));
    let (pictures, sound) = (times(&image, 0), times(&image, 1));
    for (time, departure) in &sound {
        let picture =
            pictures.iter().find(|(shown, _)| shown + PICTURE_US as i64 > *time).expect("a picture");
        let early = picture.1 as i64 - *departure as i64;
        // Sound departs up to 200 ms early, with the sound of its window.
        assert!((-60_000..=240_000).contains(&early), "{time}: {departure} {picture:?}");
    }
    for (time, departure) in pictures.iter().filter(|(time, _)| *time >= 1_000_000) {
        assert!((0..PICTURE_US as i64).contains(&(*departure as i64 - time)), "{time}: {departure}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However much is hidden, a window of 40 ms has the media of at most 320 ms and two pictures.
    #[test]
    fn the_rate_of_hidden_pictures_is_bounded(
        hidden_ms in 0u32..12_000,
        lengths in proptest::collection::vec(30u32..9000, 1..20),
    ) {
        let file = cut(hidden_ms, 2000, &lengths);
        let image = image(&file);
        let pictures = times(&image, 0);
        for (index, (time, departure)) in pictures.iter().enumerate() {
            let within = pictures[index..].iter().take_while(|(_, at)| at - departure < WINDOW_US);
            let last = within.last().map_or(*time, |(time, _)| *time);
            prop_assert!(last - time <= (8 * WINDOW_US + 2 * PICTURE_US) as i64, "{time} to {last} at {departure}");
        }
        prop_assert!(pictures.is_sorted_by_key(|(_, departure)| *departure));
    }

    /// Samples of a cut movie are restored with their times.
    #[test]
    fn samples_of_a_cut_movie_come_back(hidden_ms in 0u32..500, length in 30u32..3000) {
        let mut bytes = cut(hidden_ms, 1000, &[length]).bytes();
        let (movie, samples) = fill(&mut bytes, &[100]);
        check(&bytes, &movie, &samples);
    }
}

/// Promise: However much of a movie is hidden, it begins within five seconds.
#[test]
fn the_delay_of_a_cut_movie_is_bounded() {
    let image = image(&cut(120_000, 1000, &[100]));
    let shown = times(&image, 0).into_iter().find(|(time, _)| *time >= 0).expect("a picture");
    assert!((4_900_000..=5_000_000).contains(&shown.1), "{shown:?}");
}
