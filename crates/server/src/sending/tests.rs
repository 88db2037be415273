//! Sequences of images, asked for segment by segment as a playback does.

use std::fs;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirepath_engine::{BlockingPool, Priority};
use wirepath_media::image::StreamPlan;
use wirepath_media::ts::synthetic::Sample;
use wirepath_playback::{Departure, Load, TrainSource};

use super::item::Item;
use super::sequence::Sequence;
use crate::images::{Image, ImageFolder, ImagePolicy, Store, StoreOptions};

/// An image of a transport stream of so many packets, and the store that packs it.
fn image(folder: &tempfile::TempDir, packets: u64) -> (Arc<Store>, Arc<Image>) {
    let cache = ImageFolder::open(&folder.path().join("cache"), 1 << 30).unwrap();
    let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
    let options = StoreOptions { images: ImagePolicy::None, ..StoreOptions::new(readers, 1) };
    let store = Store::start(cache, options).unwrap();
    let path = folder.path().join("clip.ts");
    fs::write(&path, Sample { packets, ..Sample::default() }.stream().bytes).unwrap();
    let image = store.image(Arc::new(File::open(path).unwrap()), "clip.ts", store.usual_limits()).unwrap();
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

/// Promise: Over the joints of a channel, sequence numbers, timestamps and departures go on, with the same SSRC.
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
