//! ONVIF replay: header extensions with the wall clock of recordings, and its requests to play.

use wirepath_datapath::Extensions;
use wirepath_datapath::replay::Extension;

use crate::numbering::Numbering;
use crate::source::{Departure, SegmentClock};

/// Access units of a stream whose packets have header extensions of ONVIF replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessUnits {
    /// Those where playback can start are random access points: video, and transport streams.
    SomeAlone,
    /// Each can be decoded alone: sound.
    AllAlone,
}

/// Part of a request to play that ONVIF replay adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayRequest {
    /// Low byte of the request's CSeq.
    pub cseq: u8,
    /// True if packets leave as fast as the connection takes them; of no effect over UDP.
    pub unpaced: bool,
    /// Plays only pictures of a stream that can be decoded alone, and nothing of other streams.
    pub intra: Option<IntraPictures>,
}

/// Pictures of a stream that can be decoded alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntraPictures {
    /// Number of the stream.
    pub stream: u8,
    /// Least interval between them, in microseconds of the source.
    pub interval_us: u64,
}

/// State of the extensions of a stream.
#[derive(Debug)]
pub(crate) struct ReplayStream {
    units: AccessUnits,
    /// True if the next packet does not follow the last one in the recording.
    is_discontinuous: bool,
    /// Part of the recordings of the last packet.
    part: Option<u32>,
    /// Stored timestamp of the current access unit.
    unit: Option<u32>,
    /// True if that is a random access point.
    is_clean: bool,
}

impl ReplayStream {
    /// State before the first packet.
    pub(crate) fn new(units: AccessUnits) -> ReplayStream {
        ReplayStream { units, is_discontinuous: true, part: None, unit: None, is_clean: false }
    }

    /// Notes that the next packet does not follow the last one.
    pub(crate) fn leave(&mut self) {
        (self.is_discontinuous, self.unit) = (true, None);
    }

    /// Extensions of the packets of a departure of the stream.
    pub(crate) fn extensions(
        &mut self,
        numbering: &Numbering,
        departure: &Departure,
        clock: &SegmentClock,
        cseq: u8,
    ) -> Extensions {
        let Departure { at_us, train } = departure;
        let timestamp = train.run.header(train.first).timestamp;
        if self.part.replace(clock.part).is_some_and(|part| part != clock.part) {
            self.leave();
        }
        if self.unit.replace(timestamp) != Some(timestamp) {
            self.is_clean = train.run.start && train.first == 0;
        }
        let end = clock.ends.get(usize::from(train.run.stream)).copied().flatten();
        Extensions {
            first: Extension {
                wall_us: clock.zero_us.saturating_add(numbering.recorded_us(*at_us, timestamp)),
                clean: self.is_clean,
                end: false, // by its timestamp
                discontinuity: self.is_discontinuous,
                terminal: clock.is_terminal,
                cseq,
            },
            clock_hz: numbering.clock_hz(),
            all_clean: self.units == AccessUnits::AllAlone,
            end,
        }
    }

    /// Notes that a packet was sent.
    pub(crate) fn note_sent(&mut self) {
        self.is_discontinuous = false;
    }
}

#[cfg(test)]
mod tests {
    use wirepath_datapath::Train;
    use wirepath_datapath::rtp::{Header, Run};

    use super::*;
    use crate::numbering::Timestamps;

    const MOVIE: Timestamps = Timestamps::Presentation { first: u32::MAX - 90, clock_hz: 90_000 };

    /// A departure of stream 0 whose first packet has this timestamp.
    fn departure(at_us: u64, timestamp: u32, start: bool) -> Departure {
        let first =
            Header { padding: false, marker: false, payload_type: 96, sequence: 1, timestamp, ssrc: 2 };
        let run = Run { together: true, start, ..Run::new(first, 0) };
        let train =
            Train { offset: 0, length: 100, packet_size: 50, skip: 0, first: 0, packets_before: 0, run };
        Departure { at_us, train }
    }

    fn clock(part: u32, end: Option<u32>) -> SegmentClock {
        SegmentClock { zero_us: 1_000_000_000, part, ends: [end].into(), is_terminal: false }
    }

    /// Promise: The wall clock of a packet is that of its presentation, across a wrap of the timestamp.
    #[test]
    fn the_wall_clock_is_that_of_presentation() {
        let numbering = Numbering::new(MOVIE, 0);
        let mut stream = ReplayStream::new(AccessUnits::SomeAlone);
        let mut wall_us = |at_us, timestamp| {
            let departure = departure(at_us, timestamp, true);
            stream.extensions(&numbering, &departure, &clock(0, None), 7).first.wall_us - 1_000_000_000
        };
        assert_eq!(wall_us(0, u32::MAX - 90), 0);
        assert_eq!(wall_us(1_000, 89), 2_000, "a millisecond after its departure");
        assert_eq!(wall_us(40_000_000_000, (u32::MAX - 90).wrapping_add(3_600_003_600_u32)), 40_000_040_000);
        let numbering = Numbering::new(Timestamps::Departure, 0);
        let extensions = stream.extensions(&numbering, &departure(5, 77, true), &clock(0, None), 7);
        assert_eq!((extensions.first.wall_us, extensions.clock_hz), (1_000_000_005, 90_000));
    }

    /// Promise: D is set in the first packet after a seek, a gap or a skip; C in all packets of a random
    /// access point.
    #[test]
    fn flags_follow_access_units_and_parts() {
        let numbering = Numbering::new(MOVIE, 0);
        let mut stream = ReplayStream::new(AccessUnits::SomeAlone);
        let flags = |stream: &mut ReplayStream, timestamp, start, part| {
            let first =
                stream.extensions(&numbering, &departure(0, timestamp, start), &clock(part, None), 7).first;
            (first.clean, first.discontinuity)
        };
        assert_eq!(flags(&mut stream, 10, true, 0), (true, true));
        assert_eq!(flags(&mut stream, 10, true, 0), (true, true), "nothing was sent");
        stream.note_sent();
        assert_eq!(flags(&mut stream, 10, false, 0), (true, false), "the rest of the access unit");
        assert_eq!(flags(&mut stream, 20, false, 0), (false, false));
        assert_eq!(flags(&mut stream, 30, true, 1), (true, true), "after a gap");
        stream.note_sent();
        assert_eq!(flags(&mut stream, 40, false, 1), (false, false));
        stream.leave();
        assert_eq!(flags(&mut stream, 40, false, 1), (false, true), "after a skip");
    }
}
