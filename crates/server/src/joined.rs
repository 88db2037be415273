//! Images that are played one after another as one stream: times, sequence numbers and timestamps continue
//! from one image to the next.
//!
//! Only the records of trains are changed, from which the playback makes headers. Packets stay where they
//! are.

use std::sync::Arc;

use wirepath_datapath::Train;
use wirepath_datapath::rtp::Run;
use wirepath_media::image::{MAX_STREAMS, StreamPlan};
use wirepath_playback::{Departure, Segment};

use crate::images::Image;

/// Place of an image in the stream.
#[derive(Clone, Copy, Debug)]
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
        Joined::new(self.next, begin_us)
    }

    fn new(first: [u16; MAX_STREAMS], begin_us: u64) -> Joined {
        Joined { begin_us, is_cut: false, last_us: begin_us, given: 0, first, next: first }
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
        let departures = segment.departures.iter().map(|departure| self.place(image, departure, streams));
        let departures: Box<[Departure]> = departures.collect();
        // A playback requests the same segment again after a pause.
        if number >= self.given {
            self.given = number + 1;
            for Departure { at_us, train } in &departures {
                self.last_us = self.last_us.max(*at_us);
                if let Some(next) = self.next.get_mut(usize::from(train.run.stream)) {
                    *next = train.run.header(train.first + train.packets()).sequence;
                }
            }
        }
        let mapped_file = Arc::clone(&segment.mapped_file);
        Segment { mapped_file, departures, original: Some(Arc::clone(segment)), clock: None }
    }

    fn place(&self, image: &Image, departure: &Departure, streams: &[StreamPlan]) -> Departure {
        let run = departure.train.run;
        let stream = usize::from(run.stream);
        let stored = image.plan().streams.get(stream);
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
