//! A sequence of items as one endless source: times, sequence numbers and timestamps go on over the joints.

use std::sync::Arc;

use parking_lot::Mutex;
use wirepath_engine::{BlockingPool, DropOnPool, Waker};
use wirepath_media::image::StreamPlan;
use wirepath_playback::{Load, TrainSource};

use super::item::{Following, Item};
use super::output::OutputSource;
use crate::images::Image;
use crate::joined::Joined;
use crate::playlist::Fault;

/// Least time from the beginning of an item to the next one: a list of empty files must not keep a thread busy.
const LEAST_ITEM_US: u64 = 100_000;

/// Source of one destination.
pub(crate) struct Sequence {
    /// Numbers of the streams of all items.
    streams: Vec<StreamPlan>,
    place: Mutex<Place>,
    pool: BlockingPool,
}

/// The item at which a playback is.
struct Place {
    /// The last reference to an image closes files, which no engine thread may wait for.
    item: DropOnPool<Arc<Item>>,
    /// Number of the item's first segment in the sequence.
    first_segment: u32,
    joined: Joined,
    /// True once all of the item was given away.
    has_ended: bool,
}

impl Sequence {
    /// Source that begins with an item, and has packets with the numbers of `streams`.
    pub(crate) fn new(first: Arc<Item>, streams: Vec<StreamPlan>, pool: &BlockingPool) -> Sequence {
        first.begin();
        let joined = Joined::first(&first.image, &streams, 0);
        let place = Place { item: DropOnPool::new(first, pool), first_segment: 0, joined, has_ended: false };
        Sequence { streams, place: Mutex::new(place), pool: pool.clone() }
    }

    /// Image of the item at which the playback is.
    pub(crate) fn image(&self) -> Arc<Image> {
        Arc::clone(&self.place.lock().item.image)
    }

    /// Returns whether the item behind the one that was given away is not known yet.
    #[cfg(test)]
    pub(crate) fn is_waiting_for_item(&self) -> bool {
        let place = self.place.lock();
        place.has_ended && matches!(place.item.following(None), Following::NotYet)
    }
}

impl OutputSource for Sequence {
    fn asset(&self) -> String {
        self.image().name().to_owned()
    }
}

impl TrainSource for Sequence {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        let mut place = self.place.lock();
        loop {
            let Some(local) = number.checked_sub(place.first_segment) else {
                return Load::Failed("a stream without end does not go back".into());
            };
            if !place.has_ended {
                match place.item.image.segment(local, waker) {
                    Load::Ready(segment) => return Load::Ready(place.joined.give(&segment, local)),
                    load @ (Load::Pending | Load::Busy) => return load,
                    Load::End => {}
                    Load::Failed(reason) => place.note_failure(&reason),
                }
                place.has_ended = true;
            }
            match place.item.following(waker) {
                Following::Item(next) => {
                    next.begin();
                    place.enter(DropOnPool::new(next, &self.pool), number, &self.streams);
                }
                Following::End => return Load::End,
                Following::NotYet => return Load::Pending,
            }
        }
    }

    fn read_ahead_us(&self) -> u64 {
        self.image().read_ahead_us()
    }

    fn is_at_edge(&self, number: u32) -> bool {
        let place = self.place.lock();
        let local = number.checked_sub(place.first_segment).filter(|_| !place.has_ended);
        local.is_some_and(|local| TrainSource::is_at_edge(&*place.item.image, local))
    }

    fn forget(&self, waker: &Waker) {
        let place = self.place.lock();
        place.item.forget(waker);
        place.item.image.forget(waker);
    }
}

impl Place {
    /// The next item begins with segment `number` of the sequence: where the item before ends, or behind its last
    /// packet if the rest cannot be had.
    fn enter(&mut self, item: DropOnPool<Arc<Item>>, number: u32, streams: &[StreamPlan]) {
        let length_us = self.joined.length_us(&self.item.image).max(LEAST_ITEM_US);
        self.joined = self.joined.next(&item.image, streams, self.joined.begin_us + length_us);
        (self.item, self.first_segment, self.has_ended) = (item, number, false);
    }

    /// Notes that the rest of the item cannot be had.
    fn note_failure(&mut self, reason: &str) {
        self.joined.is_cut = true;
        self.item.fail(if self.joined.is_untouched() { Fault::LeftOut } else { Fault::EndsEarly }, reason);
    }
}
