//! RTP sequence numbers and timestamps of a stream across seeks. They continue after the last ones (RFC 2326
//! appendix B), so stored headers are sent unchanged only until the first seek.

use wirepath_datapath::Headers;
use wirepath_datapath::rtp::CLOCK_HZ;

/// A packet's sequence number and timestamp.
pub(crate) type Numbers = (u16, u32);

/// Relation of a stream's RTP timestamps to the time of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamps {
    /// Packets have the time of their departure, as in transport streams. The source has no other stream.
    Departure,
    /// Packets have the presentation time of their samples, which may be later than their departure.
    Presentation {
        /// Timestamp of the start of the source.
        first: u32,
        /// Ticks in a second.
        clock_hz: u32,
    },
}

impl Timestamps {
    /// Ticks of a time in microseconds, modulo 2^32; none if timestamps are departures.
    fn ticks(self, time_us: i64) -> u32 {
        match self {
            Timestamps::Departure => 0,
            Timestamps::Presentation { clock_hz, .. } => {
                (i128::from(time_us) * i128::from(clock_hz)).div_euclid(1_000_000) as u32
            }
        }
    }
}

/// Headers made from the numbers in the trains' records.
const MADE: Headers = Headers::Own { sequence_offset: 0, timestamp_offset: 0, marker: false, stored: true };

/// Offset between stored and sent numbers.
#[derive(Debug)]
pub(crate) struct Numbering {
    timestamps: Timestamps,
    /// Headers of the next packet.
    pub(crate) headers: Headers,
    /// Numbers that follow the last sent ones.
    next: Option<Numbers>,
    /// True if the next train must continue from `next`.
    rebase: bool,
    /// True from a skip until the next packet, whose numbers differ from `next`.
    is_after_skip: bool,
    /// Offset added to stored presentation timestamps since the last seek.
    timestamp_offset: u32,
    /// True if the first sequence number is below 2^15: a receiver of SRTP that misses the first packets must not miss
    /// a wrap (RFC 3711 section 3.3.1).
    starts_low: bool,
}

/// Bits of a first sequence number below 2^15.
const LOW: u16 = 0x7fff;

impl Numbering {
    /// Numbers of a stream before its first packet, in a playback whose seeks have added `shift_us` to the
    /// time of the source.
    pub(crate) fn new(timestamps: Timestamps, shift_us: i64) -> Numbering {
        let headers = Headers::Stored;
        let mut numbering = Numbering {
            timestamps,
            headers,
            next: None,
            rebase: false,
            is_after_skip: false,
            timestamp_offset: 0,
            starts_low: false,
        };
        numbering.seek(shift_us);
        numbering
    }

    /// The same numbers, with headers that are made for all packets or omitted.
    pub(crate) fn made(self, has_headers: bool) -> Numbering {
        let headers = match has_headers {
            true => MADE,
            false => Headers::Omitted { stored: true },
        };
        Numbering { headers, ..self }
    }

    /// The same numbers, with a first sequence number below 2^15.
    pub(crate) fn starting_low(self) -> Numbering {
        Numbering { starts_low: true, rebase: true, ..self }
    }

    /// Headers are made for all packets from now on, from the records of their trains.
    pub(crate) fn make_headers(&mut self) {
        self.headers = MADE;
    }

    /// Returns whether packets were sent.
    pub(crate) fn has_sent(&self) -> bool {
        self.next.is_some()
    }

    /// Notes that the next packet is stored elsewhere, and that seeks have added `shift_us` to the time of
    /// the source, so that timestamps continue. Before the first packet there is nothing to continue.
    pub(crate) fn seek(&mut self, shift_us: i64) {
        self.rebase = self.next.is_some() || shift_us != 0 || self.starts_low;
        self.timestamp_offset = self.timestamps.ticks(shift_us);
    }

    /// Notes that packets are skipped, so that the client sees a loss.
    pub(crate) fn skip(&mut self) {
        self.is_after_skip = true;
    }

    /// Begins with the packet of these stored numbers, if it is the first one after a seek.
    #[inline]
    pub(crate) fn begin(&mut self, stored: Numbers) {
        if self.rebase {
            self.begin_elsewhere(stored);
        }
    }

    #[cold]
    fn begin_elsewhere(&mut self, stored: Numbers) {
        self.rebase = false;
        if matches!(self.headers, Headers::Omitted { .. }) {
            return;
        }
        let is_departure = self.timestamps == Timestamps::Departure;
        let is_first = self.next.is_none() && self.starts_low;
        let (sequence, timestamp) = self.next.unwrap_or(self.first(stored));
        self.headers = Headers::Own {
            sequence_offset: sequence.wrapping_sub(stored.0),
            timestamp_offset: match is_departure {
                true => timestamp.wrapping_sub(stored.1),
                false => self.timestamp_offset,
            },
            // The marker means that the timestamp does not follow the last one (RFC 2250 section 2); in other
            // formats it has another meaning.
            marker: is_departure && !is_first,
            stored: true,
        };
    }

    /// Numbers of a first packet with these stored numbers.
    fn first(&self, (sequence, timestamp): Numbers) -> Numbers {
        (if self.starts_low { sequence & LOW } else { sequence }, timestamp)
    }

    /// Numbers for sending the packet with these stored numbers.
    pub(crate) fn sent(&self, (sequence, timestamp): Numbers) -> Numbers {
        match self.headers {
            Headers::Stored | Headers::Generated | Headers::Omitted { .. } => (sequence, timestamp),
            Headers::Own { sequence_offset, timestamp_offset, .. } => {
                (sequence.wrapping_add(sequence_offset), timestamp.wrapping_add(timestamp_offset))
            }
        }
    }

    /// Sequence number of the next packet, whose stored numbers may be unknown.
    pub(crate) fn next_sequence(&self, stored: Option<Numbers>) -> Option<u16> {
        let next = match self.rebase {
            true => self.next.or(stored.map(|stored| self.first(stored))),
            false => stored.map(|stored| self.sent(stored)).or(self.next.filter(|_| !self.is_after_skip)),
        };
        next.map(|(sequence, _)| sequence)
    }

    /// Returns whether packets are parts of access units with one timestamp. Those of a transport stream are not.
    pub(crate) fn has_units(&self) -> bool {
        matches!(self.timestamps, Timestamps::Presentation { .. })
    }

    /// Returns whether the packet with these stored numbers follows the last sent one and has its timestamp:
    /// in a run of packets of one timestamp, both are of one access unit.
    pub(crate) fn is_of_last(&self, stored: Numbers) -> bool {
        self.may_follow() && self.next == Some(self.sent(stored))
    }

    /// Returns whether packets were sent since the last seek or skip, so that the next one may follow them.
    pub(crate) fn may_follow(&self) -> bool {
        !self.rebase && !self.is_after_skip && self.next.is_some()
    }

    /// Time of the source, in microseconds, of the packet that departs at `at_us` and has this stored
    /// timestamp.
    pub(crate) fn recorded_us(&self, at_us: u64, timestamp: u32) -> i64 {
        let at_us = at_us as i64;
        match self.timestamps {
            Timestamps::Departure => at_us,
            Timestamps::Presentation { first, clock_hz } => {
                let expected = first.wrapping_add(self.timestamps.ticks(at_us));
                let later = i64::from(timestamp.wrapping_sub(expected) as i32);
                at_us.saturating_add(later * 1_000_000 / i64::from(clock_hz.max(1)))
            }
        }
    }

    /// Ticks of the timestamps in a second.
    pub(crate) fn clock_hz(&self) -> u32 {
        match self.timestamps {
            Timestamps::Departure => CLOCK_HZ,
            Timestamps::Presentation { clock_hz, .. } => clock_hz,
        }
    }

    /// Timestamp for the time `at_us` of the source, at which the packet with these stored numbers departs.
    pub(crate) fn timestamp_at(&self, at_us: u64, stored: Numbers) -> u32 {
        match self.timestamps {
            Timestamps::Departure => self.sent(stored).1,
            Timestamps::Presentation { first, .. } => {
                let ticks = self.timestamps.ticks(at_us as i64);
                first.wrapping_add(ticks).wrapping_add(self.timestamp_offset)
            }
        }
    }

    /// Notes that all packets before the one with these stored numbers were sent. Only the first packet after
    /// a seek has a marker.
    pub(crate) fn advance(&mut self, stored: Numbers) {
        self.next = Some(self.sent(stored));
        self.is_after_skip = false;
        if let Headers::Own { marker, .. } = &mut self.headers {
            *marker = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOVIE: Timestamps = Timestamps::Presentation { first: 1000, clock_hz: 48_000 };

    proptest! {
        /// Each sequence number follows the last one, and each timestamp follows by the stored difference,
        /// after any number of seeks.
        #[test]
        fn numbers_go_on_across_seeks(
            runs in prop::collection::vec((any::<u16>(), any::<u32>(), 1_u16..50), 1..8)
        ) {
            let mut numbering = Numbering::new(Timestamps::Departure, 0);
            let mut expected: Option<Numbers> = None;
            for (sequence, timestamp, packets) in runs {
                let shift_us = if expected.is_some() { 7 } else { 0 };
                numbering.seek(shift_us);
                prop_assert_eq!(numbering.has_sent(), expected.is_some());
                numbering.begin((sequence, timestamp));
                for packet in 0..packets {
                    let stored_timestamp = timestamp.wrapping_add(90 * u32::from(packet));
                    let stored = (sequence.wrapping_add(packet), stored_timestamp);
                    let sent = numbering.sent(stored);
                    prop_assert_eq!(sent, expected.unwrap_or(stored));
                    prop_assert_eq!(numbering.next_sequence(Some(stored)), Some(sent.0));
                    prop_assert_eq!(numbering.timestamp_at(0, stored), sent.1);
                    let has_marker = matches!(numbering.headers, Headers::Own { marker: true, .. });
                    prop_assert_eq!(has_marker, expected.is_some() && packet == 0 && shift_us != 0);
                    let next = (stored.0.wrapping_add(1), stored.1.wrapping_add(90));
                    numbering.advance(next);
                    expected = Some((sent.0.wrapping_add(1), sent.1.wrapping_add(90)));
                }
            }
        }

        /// Promise: After a seek, the timestamps of all tracks of a movie advance by the same time.
        #[test]
        fn timestamps_of_presentation_move_by_the_shift(
            shifts in prop::collection::vec(-100_000_000_i64..100_000_000, 1..6), at_us in 0_u64..1_000_000_000,
        ) {
            let mut numbering = Numbering::new(MOVIE, 0);
            let stored = (7, 1000_u32.wrapping_add((at_us * 48 / 1000) as u32));
            for shift_us in shifts {
                numbering.seek(shift_us);
                numbering.begin(stored);
                let shift = (shift_us * 48).div_euclid(1000) as u32;
                prop_assert_eq!(numbering.sent(stored).1, stored.1.wrapping_add(shift));
                prop_assert_eq!(numbering.timestamp_at(at_us, stored), stored.1.wrapping_add(shift));
                let is_marked = matches!(numbering.headers, Headers::Own { marker: true, .. });
                prop_assert!(!is_marked, "the marker is the format's");
                numbering.advance((8, stored.1));
            }
        }
    }

    /// A request to play from another position before the first packet does not change the stored numbers.
    #[test]
    fn a_seek_before_the_first_packet_changes_nothing() {
        let mut numbering = Numbering::new(Timestamps::Departure, 0);
        numbering.seek(0);
        numbering.begin((7, 70));
        assert_eq!((numbering.headers, numbering.sent((7, 70))), (Headers::Stored, (7, 70)));
        assert_eq!(numbering.next_sequence(None), None, "it is stored in another segment");
    }

    /// Promise: After skipped packets, RTP-Info announces the next packet that is sent, not the lost one.
    #[test]
    fn the_next_packet_after_a_skip_is_behind_a_gap() {
        let mut numbering = Numbering::new(MOVIE, 0);
        numbering.begin((7, 1000));
        numbering.advance((8, 2000));
        numbering.skip();
        assert_eq!(numbering.next_sequence(Some((20, 9000))), Some(20));
        assert_eq!(numbering.next_sequence(None), None, "it is stored in another segment");
        // A seek closes the gap.
        numbering.seek(5);
        assert_eq!(numbering.next_sequence(Some((30, 90_000))), Some(8));
        numbering.begin((30, 90_000));
        numbering.advance((31, 91_000));
        assert_eq!(numbering.next_sequence(None), Some(9), "it follows the last one");
        numbering.skip();
        assert_eq!(numbering.next_sequence(Some((40, 99_000))), Some(18));
    }

    /// Promise: The first sequence number of SRTP is below 2^15; the next ones follow it, and timestamps are as stored.
    #[test]
    fn a_first_sequence_number_is_low() {
        let mut numbering = Numbering::new(Timestamps::Departure, 0).starting_low();
        let stored = (65_535, 1000);
        assert_eq!(numbering.next_sequence(Some(stored)), Some(32_767));
        numbering.begin(stored);
        assert_eq!(numbering.sent(stored), (32_767, 1000));
        assert!(matches!(numbering.headers, Headers::Own { marker: false, .. }));
        numbering.advance((0, 1090));
        assert_eq!(numbering.sent((0, 1090)), (32_768, 1090));
        numbering.seek(0);
        numbering.begin((40_000, 7));
        assert_eq!(numbering.sent((40_000, 7)), (32_768, 1090), "a seek goes on");
    }

    /// A track that is set up after a seek has the same time as the others.
    #[test]
    fn a_stream_that_joins_has_the_shift_of_the_others() {
        let mut numbering = Numbering::new(MOVIE, 2_000_000);
        assert_eq!(numbering.timestamp_at(1_000_000, (0, 0)), 1000 + 3 * 48_000);
        numbering.begin((7, 1000 + 48_000));
        assert_eq!(numbering.sent((7, 1000 + 48_000)), (7, 1000 + 3 * 48_000));
    }
}
