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
    /// Sequence number of the packet after the last one that was returned, for each stream.
    next: [u16; MAX_STREAMS],
    /// Shift of each stream; none for a stream that is not sent.
    shifts: [Option<Shift>; MAX_STREAMS],
}

/// Difference between the headers of the image and those of the stream.
#[derive(Clone, Copy, Debug)]
struct Shift {
    /// The SSRC itself.
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
}

impl Joined {
    /// The first image, with the numbers of `streams`.
    pub(crate) fn first(image: &Image, streams: &[StreamPlan], begin_us: u64) -> Joined {
        let mut numbers = [0; MAX_STREAMS];
        for (number, stream) in numbers.iter_mut().zip(streams) {
            *number = stream.sequence;
        }
        Joined::new(image, streams, numbers, begin_us)
    }

    /// The image after this one, which continues its numbers.
    pub(crate) fn next(&self, image: &Image, streams: &[StreamPlan], begin_us: u64) -> Joined {
        Joined::new(image, streams, self.next, begin_us)
    }

    fn new(image: &Image, streams: &[StreamPlan], first: [u16; MAX_STREAMS], begin_us: u64) -> Joined {
        let mut shifts = [None; MAX_STREAMS];
        let plans = streams.iter().zip(image.plan().streams.iter());
        for ((shift, first), (own, stored)) in shifts.iter_mut().zip(first).zip(plans) {
            let ticks = u128::from(begin_us) * u128::from(own.clock_hz) / 1_000_000;
            *shift = Some(Shift {
                ssrc: own.ssrc,
                sequence: first.wrapping_sub(stored.sequence),
                timestamp: own.timestamp.wrapping_sub(stored.timestamp).wrapping_add(ticks as u32),
            });
        }
        Joined { begin_us, is_cut: false, last_us: begin_us, given: 0, next: first, shifts }
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

    /// A segment of the image at its position in the stream, with the numbers of the stream.
    pub(crate) fn give(&mut self, segment: &Arc<Segment>, number: u32) -> Arc<Segment> {
        Arc::new(self.give_own(segment, number))
    }

    /// The same, of which nobody else has a reference.
    pub(crate) fn give_own(&mut self, segment: &Arc<Segment>, number: u32) -> Segment {
        let departures: Box<[Departure]> =
            segment.departures.iter().map(|departure| self.place(departure)).collect();
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

    fn place(&self, departure: &Departure) -> Departure {
        let run = departure.train.run;
        let Some(Some(shift)) = self.shifts.get(usize::from(run.stream)) else { return *departure };
        let mut header = run.first;
        header.ssrc = shift.ssrc;
        header.sequence = header.sequence.wrapping_add(shift.sequence);
        header.timestamp = header.timestamp.wrapping_add(shift.timestamp);
        let train = Train { run: Run { first: header, ..run }, ..departure.train };
        Departure { at_us: departure.at_us + self.begin_us, train }
    }
}
