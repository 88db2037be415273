//! Sequences of images, asked for segment by segment as a playback does.

use std::fs;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirepath_engine::{BlockingPool, Priority};
use wirepath_media::image::StreamPlan;
use wirepath_media::mp4::synthetic::{self, SampleShape, SampleTrack, audio, elementary_stream};
use wirepath_media::ts::synthetic::Sample;
use wirepath_playback::{Departure, Load, TrainSource};

use super::item::Item;
use super::sequence::Sequence;
use crate::images::{Image, ImageFolder, ImagePolicy, Store, StoreOptions};
use crate::playlist::{Entry, Fault, Playlist, UnplayableEntries};

/// An image of a transport stream of so many packets, and the store that packs it.
fn image(folder: &tempfile::TempDir, packets: u64) -> (Arc<Store>, Arc<Image>) {
    image_of(folder, "clip.ts", &Sample { packets, ..Sample::default() }.stream().bytes)
}

/// An image of a file with these bytes.
fn image_of(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> (Arc<Store>, Arc<Image>) {
    let cache = ImageFolder::open(&folder.path().join("cache"), 1 << 30).unwrap();
    let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
    let options = StoreOptions { images: ImagePolicy::None, ..StoreOptions::new(readers, 1) };
    let store = Store::start(cache, options).unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    let image = store.image(Arc::new(File::open(path).unwrap()), name, store.usual_limits()).unwrap();
    (store, image)
}

/// The departures of a sequence from a segment on, while there are more, and the number of the segment behind.
fn departures(sequence: &Sequence, from: u32) -> (Vec<Departure>, u32, bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut departures, mut number) = (Vec::new(), from);
    loop {
        assert!(Instant::now() < deadline, "segment {number} does not come");
        match sequence.segment(number, None) {
            Load::Ready(segment) => {
                departures.extend(segment.departures.iter().copied());
                number += 1;
            }
            Load::End => return (departures, number, true),
            Load::Failed(reason) => panic!("{reason}"),
            // Of the items that are known nothing is left.
            Load::Pending if sequence.is_waiting_for_item() => return (departures, number, false),
            Load::Pending | Load::Busy => std::thread::yield_now(),
        }
    }
}

/// Promise: Between items of a channel, sequence numbers, timestamps and departures continue, with the same
/// SSRC.
#[test]
fn numbers_and_times_go_on_over_joints() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, image) = image(&folder, 20_000);
    let pool = BlockingPool::start("pool", 1, Priority::Normal).unwrap();
    let own = StreamPlan { sequence: 65_530, timestamp: u32::MAX - 10, ssrc: 7, ..image.plan().streams[0] };
    let first = Item::new(Arc::clone(&image));
    let sequence = Sequence::new(Arc::clone(&first), vec![own], &pool);
    let (one, behind, is_over) = departures(&sequence, 0);
    assert!(!is_over && !one.is_empty(), "the next item is not known yet");
    let second = Item::new(Arc::clone(&image));
    first.follow(Some(Arc::clone(&second)));
    second.follow(None);
    let (two, _, is_over) = departures(&sequence, behind);
    assert!(is_over);
    assert_eq!(one.len(), two.len());
    assert!(matches!(sequence.segment(0, None), Load::Failed(_)), "what was before is gone");

    let (start, last) = (one[0].train.run.first, one[one.len() - 1].train);
    assert_eq!((start.sequence, start.timestamp, start.ssrc), (65_530, u32::MAX - 10, 7));
    let next = last.run.header(last.first + last.packets());
    let (begin_us, length_us) = (two[0].at_us, image.duration_us().unwrap());
    assert_eq!(begin_us, one[0].at_us + length_us);
    assert_eq!(two[0].train.run.first.sequence, next.sequence);
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(two.at_us - one.at_us, length_us);
        let ticks = two.train.run.first.timestamp.wrapping_sub(one.train.run.first.timestamp);
        assert_eq!(u64::from(ticks), length_us * 9 / 100);
        assert_eq!((two.train.offset, two.train.length), (one.train.offset, one.train.length));
        assert_eq!(two.train.run.first.ssrc, 7);
    }
}

#[test]
fn an_item_that_ends_early_is_logged_once_until_it_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, image) = image(&folder, 2_000);
    let entry = Entry { path: "clip.ts".into(), source: None, not_before_s: None };
    let list = Playlist { entries: vec![entry.clone()], ..Playlist::default() };
    let entries = Arc::new(UnplayableEntries::new("news", &list));
    let item = || Item::of(Arc::clone(&image), &entries, entry.clone());
    let is_new = || entries.note_once(&entry, Fault::EndsEarly, "no clock");
    for round in 1..=2 {
        let item = item();
        item.fail(Fault::EndsEarly, "no clock");
        item.note_end();
        assert!(!item.has_failed() && !is_new(), "round {round}");
    }
    item().note_end();
    assert!(is_new(), "it was played to its end");
}

/// A movie of two tracks of sound, of a minute: AAC with 48 kHz, and G.711 with 8 kHz.
fn movie() -> Vec<u8> {
    let shape = |duration: u32| SampleShape { length: 160, duration, composition_offset: 0, sync: true };
    let track = |timescale: u32, entry, shape: SampleShape| SampleTrack {
        timescale,
        handler: *b"soun",
        entry,
        samples: vec![shape; (MOVIE_S * timescale / shape.duration) as usize],
        edits: Vec::new(),
    };
    // AAC-LC, 48 kHz, stereo (ISO/IEC 14496-3 section 1.6.2.1).
    let aac = audio(b"mp4a", &[elementary_stream(0x40, &[0x11, 0x90])]);
    let mut g711 = audio(b"ulaw", &[]);
    g711[32..36].copy_from_slice(&(8000_u32 << 16).to_be_bytes()); // its sampling rate, 16.16
    let tracks = vec![track(48_000, aac, shape(1024)), track(8000, g711, shape(160))];
    synthetic::File { tracks, samples_in_chunk: 10, ..synthetic::File::default() }.bytes()
}

const MOVIE_S: u32 = 60;

/// Promise: In 27 hours of a looped movie, tracks stay in sync within a tick, across each wrap of their RTP
/// numbers.
#[test]
fn tracks_stay_in_step_for_a_day() {
    const LOOPS: u64 = 27 * 60;
    let folder = tempfile::tempdir().unwrap();
    let (_store, image) = image_of(&folder, "movie.mp4", &movie());
    let pool = BlockingPool::start("pool", 1, Priority::Normal).unwrap();
    let own = image.plan().streams.to_vec();
    let mut item = Item::new(Arc::clone(&image));
    let sequence = Sequence::new(Arc::clone(&item), own.clone(), &pool);
    let (mut numbers, mut segment, mut begin_us): (Vec<u16>, _, _) =
        (own.iter().map(|own| own.sequence).collect(), 0, 0);
    let mut packets = 0;
    for _ in 0..LOOPS {
        let (departures, behind, _) = departures(&sequence, segment);
        segment = behind;
        for train in departures.iter().map(|departure| &departure.train) {
            let (stream, first) = (usize::from(train.run.stream), train.run.header(train.first));
            assert_eq!(first.sequence, numbers[stream], "stream {stream} after {begin_us} us");
            numbers[stream] = first.sequence.wrapping_add(train.packets() as u16);
            packets += u64::from(train.packets());
        }
        for (stream, own) in own.iter().enumerate() {
            let first = departures
                .iter()
                .find(|departure| usize::from(departure.train.run.stream) == stream)
                .unwrap();
            let expected = (u128::from(begin_us) * u128::from(own.clock_hz) / 1_000_000) as u32;
            let ticks = first.train.run.header(first.train.first).timestamp.wrapping_sub(own.timestamp);
            assert!(
                ticks.wrapping_sub(expected) <= 1,
                "stream {stream} after {begin_us} us: {ticks}, not {expected}"
            );
        }
        begin_us += image.duration_us().unwrap();
        let next = Item::new(Arc::clone(&image));
        item.follow(Some(Arc::clone(&next)));
        item = next;
    }
    assert_eq!(own.iter().map(|own| own.clock_hz).collect::<Vec<_>>(), [48_000, 8000]);
    assert!(begin_us * 48_000 / 1_000_000 > 1 << 32, "timestamps did not wrap in {begin_us} us");
    assert!(packets > 10 * 2 * 65_536, "sequence numbers of both did not wrap in {packets} packets");
}
