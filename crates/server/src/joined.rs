//! Images that are played one after another as one stream: times, sequence numbers and timestamps continue
//! from one image to the next.
//!
//! Only the records of trains are changed, from which the playback makes headers. Packets stay where they
//! are.
//!
//! Sound from before the beginning of an image (the priming samples of an encoder, which an edit list hides) is left
//! out behind another image: its timestamps would be before those of the sound that was sent. Pictures from before the
//! beginning stay, since decoders need them.

use std::sync::Arc;

use wirepath_datapath::Train;
use wirepath_datapath::rtp::Run;
use wirepath_media::image::{MAX_STREAMS, StreamPlan};
use wirepath_playback::{Departure, Segment};

use crate::images::Image;

/// Latest departure in an image of sound from before its beginning: packers keep half a second of it.
const EARLY_US: u64 = 2_000_000;

/// Place of an image in the stream.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    /// Time of the stream at which the image begins, in microseconds.
    pub(crate) begin_us: u64,
    /// True if the rest of the image cannot be read.
    pub(crate) is_cut: bool,
    /// Last departure in the segments that were returned.
    last_us: u64,
    /// Segments that were given away.
    given: u32,
    /// Sequence number of the image's first packet of each stream, and of the packet after the last one that
    /// was returned.
    first: [u16; MAX_STREAMS],
    next: [u16; MAX_STREAMS],
    /// True if another image is before this one.
    is_behind: bool,
    /// Last timestamps of the streams of the image before, as far as they had packets.
    before: [Option<u32>; MAX_STREAMS],
    /// The same of this image, in the segments that were returned.
    last: [Option<u32>; MAX_STREAMS],
    /// Packets of sound of each stream that are left out.
    left_out: [u16; MAX_STREAMS],
    /// Trains that are left out: number of the segment, and index in it.
    removed: Vec<(u32, u32)>,
}

impl Joined {
    /// The first image, with the numbers of `streams`.
    pub(crate) fn first(streams: &[StreamPlan], begin_us: u64) -> Joined {
        let mut numbers = [0; MAX_STREAMS];
        for (number, stream) in numbers.iter_mut().zip(streams) {
            *number = stream.sequence;
        }
        Joined::new(numbers, begin_us)
    }

    /// The image after this one, which continues its numbers.
    pub(crate) fn next(&self, begin_us: u64) -> Joined {
        let before = std::array::from_fn(|stream| self.last[stream].or(self.before[stream]));
        Joined { is_behind: true, before, ..Joined::new(self.next, begin_us) }
    }

    fn new(first: [u16; MAX_STREAMS], begin_us: u64) -> Joined {
        Joined {
            begin_us,
            is_cut: false,
            last_us: begin_us,
            given: 0,
            first,
            next: first,
            is_behind: false,
            before: [None; MAX_STREAMS],
            last: [None; MAX_STREAMS],
            left_out: [0; MAX_STREAMS],
            removed: Vec::new(),
        }
    }

    /// Length of the image in the stream: to its end, or to the last packet that was returned if the rest
    /// cannot be read.
    pub(crate) fn length_us(&self, image: &Image) -> u64 {
        let duration_us = if self.is_cut { 0 } else { image.duration_us().unwrap_or(0) };
        duration_us.max(self.last_us - self.begin_us)
    }

    /// Returns whether no segment of the image has been returned yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.given == 0
    }

    /// A segment of the image at its position in the stream, with the numbers of `streams`.
    pub(crate) fn give(
        &mut self,
        image: &Image,
        segment: &Arc<Segment>,
        number: u32,
        streams: &[StreamPlan],
    ) -> Arc<Segment> {
        Arc::new(self.give_own(image, segment, number, streams))
    }

    /// The same, of which nobody else has a reference.
    pub(crate) fn give_own(
        &mut self,
        image: &Image,
        segment: &Arc<Segment>,
        number: u32,
        streams: &[StreamPlan],
    ) -> Segment {
        // A playback requests the same segment again after a pause.
        let is_new = number >= self.given;
        let left = self.without_early_sound(image, segment, streams, is_new.then_some(number));
        let departures = left.as_deref().unwrap_or(&segment.departures);
        let departures = departures.iter().map(|departure| self.place(image, departure, streams));
        let departures: Box<[Departure]> = departures.collect();
        if is_new {
            self.given = number + 1;
            for Departure { at_us, train } in &departures {
                self.last_us = self.last_us.max(*at_us);
                let (stream, packets) = (usize::from(train.run.stream), train.packets());
                if let Some((next, last)) = self.next.get_mut(stream).zip(self.last.get_mut(stream)) {
                    *next = train.run.header(train.first + packets).sequence;
                    *last = Some(train.run.header(train.first + packets - 1).timestamp);
                }
            }
        }
        let mapped_file = Arc::clone(&segment.mapped_file);
        Segment { mapped_file, departures, original: Some(Arc::clone(segment)), clock: None }
    }

    /// Index of a train of the image's segment in the segment that was returned.
    pub(crate) fn index(&self, segment: u32, train: u32) -> u32 {
        let is_before = |&&(of, index): &&(u32, u32)| of == segment && index < train;
        train - self.removed.iter().filter(is_before).count() as u32
    }

    /// The departures of a segment without sound from before the beginning; none if it has no such sound. Counts what
    /// is left out of the segment `new`.
    fn without_early_sound(
        &mut self,
        image: &Image,
        segment: &Segment,
        streams: &[StreamPlan],
        new: Option<u32>,
    ) -> Option<Vec<Departure>> {
        if !self.is_behind || segment.departures.first()?.at_us > EARLY_US {
            return None;
        }
        let early = segment.departures.iter().map(|departure| self.early_packets(image, departure, streams));
        let early: Vec<u32> = early.collect();
        let pairs = || segment.departures.iter().zip(&early);
        // A segment has a train at least.
        if early.iter().all(|early| *early == 0)
            || pairs().all(|(of, early)| of.train.after(*early).is_none())
        {
            return None;
        }
        let (mut left, mut is_start) = (Vec::with_capacity(early.len()), false);
        for (index, (departure, early)) in (0..).zip(pairs()) {
            if let Some((number, left_out)) =
                new.zip(self.left_out.get_mut(usize::from(departure.train.run.stream)))
            {
                *left_out = left_out.wrapping_add(*early as u16);
                if departure.train.after(*early).is_none() {
                    self.removed.push((number, index));
                }
            }
            // A random access point may be marked at the sound that departs with the picture.
            is_start |= departure.train.run.start;
            if let Some(mut train) = departure.train.after(*early) {
                train.run.start = std::mem::take(&mut is_start);
                left.push(Departure { train, ..*departure });
            }
        }
        Some(left)
    }

    /// Number of the first packets of a train that are sound from before the beginning, or from before the end of the
    /// image before.
    fn early_packets(&self, image: &Image, departure: &Departure, streams: &[StreamPlan]) -> u32 {
        let train = &departure.train;
        let stream = usize::from(train.run.stream);
        let stored = image.plan().streams.get(stream);
        let (Some(own), Some(stored), Some(before)) = (streams.get(stream), stored, self.before.get(stream))
        else {
            return 0;
        };
        let is_early = |index: u32| {
            let timestamp = train.run.header(train.first + index).timestamp;
            let placed = self.timestamp(timestamp, own, stored);
            let is_behind = before.is_none_or(|before| is_later(placed, before));
            !is_behind || is_later(stored.timestamp, timestamp)
        };
        if departure.at_us > EARLY_US || !is_early(0) || !image.is_sound(train.run.stream) {
            return 0;
        }
        (1..train.packets()).find(|index| !is_early(*index)).unwrap_or(train.packets())
    }

    /// Timestamp of the stream for a stored one.
    fn timestamp(&self, timestamp: u32, own: &StreamPlan, stored: &StreamPlan) -> u32 {
        let ticks = u128::from(self.begin_us) * u128::from(own.clock_hz) / 1_000_000;
        timestamp.wrapping_sub(stored.timestamp).wrapping_add(own.timestamp).wrapping_add(ticks as u32)
    }

    fn place(&self, image: &Image, departure: &Departure, streams: &[StreamPlan]) -> Departure {
        let run = departure.train.run;
        let stream = usize::from(run.stream);
        let stored = image.plan().streams.get(stream);
        let first = self.first.get(stream).zip(self.left_out.get(stream));
        let (Some(own), Some(stored), Some((first, left_out))) = (streams.get(stream), stored, first) else {
            return *departure; // of a stream that is not sent
        };
        let mut header = run.first;
        header.ssrc = own.ssrc;
        header.sequence = header.sequence.wrapping_sub(stored.sequence).wrapping_add(*first);
        header.sequence = header.sequence.wrapping_sub(*left_out);
        header.timestamp = self.timestamp(header.timestamp, own, stored);
        let train = Train { run: Run { first: header, ..run }, ..departure.train };
        Departure { at_us: departure.at_us + self.begin_us, train }
    }
}

/// Returns whether a timestamp is later than another one, modulo 2^32.
fn is_later(timestamp: u32, than: u32) -> bool {
    (timestamp.wrapping_sub(than) as i32) > 0
}
