//! A sequence of items as one endless source: times, sequence numbers and timestamps go on over the joints.
//!
//! Only the records of trains are changed, which the playback makes headers from; packets stay where they are.

use std::sync::Arc;

use parking_lot::Mutex;
use wirepath_datapath::Train;
use wirepath_datapath::rtp::Run;
use wirepath_engine::{BlockingPool, DropOnPool, Waker};
use wirepath_media::image::{MAX_STREAMS, StreamPlan};
use wirepath_playback::{Departure, Load, Segment, TrainSource};

use super::item::{Following, Item};

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
    /// Time at which the item begins.
    begin_us: u64,
    /// Last departure that was given away.
    last_us: u64,
    /// Segments of the item that were given away.
    given: u32,
    /// True once all of the item was given away.
    has_ended: bool,
    /// True if the rest of the item cannot be had.
    is_cut: bool,
    /// Sequence number of the item's first packet of each stream, and of the one behind the last that was given
    /// away.
    first: [u16; MAX_STREAMS],
    next: [u16; MAX_STREAMS],
}

impl Sequence {
    /// Source that begins with an item, and has packets with the numbers of `streams`.
    pub(crate) fn new(first: Arc<Item>, streams: Vec<StreamPlan>, pool: &BlockingPool) -> Sequence {
        let mut numbers = [0; MAX_STREAMS];
        for (number, stream) in numbers.iter_mut().zip(&streams) {
            *number = stream.sequence;
        }
        first.begin();
        let place = Place {
            item: DropOnPool::new(first, pool),
            first_segment: 0,
            begin_us: 0,
            last_us: 0,
            given: 0,
            has_ended: false,
            is_cut: false,
            first: numbers,
            next: numbers,
        };
        Sequence { streams, place: Mutex::new(place), pool: pool.clone() }
    }

    /// Returns whether the item behind the one that was given away is not known yet.
    #[cfg(test)]
    pub(crate) fn is_waiting_for_item(&self) -> bool {
        let place = self.place.lock();
        place.has_ended && matches!(place.item.following(None), Following::NotYet)
    }

    /// Name of the asset whose packets were given away last.
    pub(crate) fn asset(&self) -> String {
        self.place.lock().item.image.name().to_owned()
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
                    Load::Ready(segment) => return Load::Ready(place.give(&segment, local, &self.streams)),
                    load @ (Load::Pending | Load::Busy) => return load,
                    Load::End => {}
                    Load::Failed(reason) => place.note_failure(&reason),
                }
                place.has_ended = true;
            }
            match place.item.following(waker) {
                Following::Item(next) => {
                    next.begin();
                    place.enter(DropOnPool::new(next, &self.pool), number);
                }
                Following::End => return Load::End,
                Following::NotYet => return Load::Pending,
            }
        }
    }

    fn read_ahead_us(&self) -> u64 {
        let image = Arc::clone(&self.place.lock().item.image);
        image.read_ahead_us()
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
    fn enter(&mut self, item: DropOnPool<Arc<Item>>, number: u32) {
        let duration_us = if self.is_cut { 0 } else { self.item.image.duration_us().unwrap_or(0) };
        self.begin_us = (self.begin_us + duration_us.max(LEAST_ITEM_US)).max(self.last_us);
        (self.item, self.first_segment, self.given) = (item, number, 0);
        (self.has_ended, self.is_cut) = (false, false);
        self.first = self.next;
    }

    /// Notes that the rest of the item cannot be had.
    fn note_failure(&mut self, reason: &str) {
        self.is_cut = true;
        tracing::warn!(asset = self.item.image.name(), reason, "an item of a channel ends early");
        if self.given == 0 {
            self.item.fail();
        }
    }

    /// A segment of the item, in its place.
    fn give(&mut self, segment: &Segment, local: u32, streams: &[StreamPlan]) -> Arc<Segment> {
        self.given = self.given.max(local + 1);
        let departures = segment.departures.iter().map(|departure| self.place(departure, streams));
        let departures: Box<[Departure]> = departures.collect();
        for Departure { at_us, train } in &departures {
            self.last_us = self.last_us.max(*at_us);
            if let Some(next) = self.next.get_mut(usize::from(train.run.stream)) {
                *next = train.run.header(train.first + train.packets()).sequence;
            }
        }
        Arc::new(Segment { mapped_file: Arc::clone(&segment.mapped_file), departures })
    }

    /// A departure with the numbers of the sequence.
    fn place(&self, departure: &Departure, streams: &[StreamPlan]) -> Departure {
        let run = departure.train.run;
        let stream = usize::from(run.stream);
        let stored = self.item.image.plan().streams.get(stream);
        let (Some(own), Some(stored), Some(first)) = (streams.get(stream), stored, self.first.get(stream))
        else {
            return *departure; // of a stream that is not sent
        };
        let ticks = u128::from(self.begin_us) * u128::from(own.clock_hz) / 1_000_000;
        let mut header = run.first;
        header.ssrc = own.ssrc;
        header.sequence = header.sequence.wrapping_sub(stored.sequence).wrapping_add(*first);
        header.timestamp = header
            .timestamp
            .wrapping_sub(stored.timestamp)
            .wrapping_add(own.timestamp)
            .wrapping_add(ticks as u32);
        let train = Train { run: Run { first: header, ..run }, ..departure.train };
        Departure { at_us: departure.at_us + self.begin_us, train }
    }
}
