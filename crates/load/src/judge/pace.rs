//! Pace of a transport stream: its own clock (PCR), compared with the arrival times.
//!
//! A server may write the sending time into RTP timestamps, as live555MediaServer does for transport streams.
//! Such timestamps are never late, however slowly the media are sent. The clock of the stream shows the real
//! pace.

use wirepath_media::rtp::{Header, PAYLOAD_TYPE_MP2T, without_padding};
use wirepath_media::ts::{PACKET_LENGTH, Packet, Pcr, TICKS_PER_SECOND};

/// Minimum pace of a timely session, as a share of the stream's own rate.
pub const LEAST_PACE: f64 = 0.9;

/// Minimum time of a measurement. In a shorter time, the result is inexact, since a burst is several percent
/// of it.
const LEAST_SPAN_US: i64 = 3_000_000;

/// Advance of the clock, beyond the time passed, above which media were skipped. References are at most 100
/// ms apart.
const SKIP_US: i64 = 1_000_000;

/// Length of an RTP header without contributing sources and extensions.
const HEADER_LENGTH: usize = 12;

/// Clock reference (PCR) in an RTP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    pid: u16,
    pcr: Pcr,
    discontinuity: bool,
}

impl Reference {
    /// Finds the first clock reference in an RTP packet that carries transport packets. The transport packets
    /// are at the end of the packet, whatever the length of its header.
    pub(crate) fn find(payload_type: u8, packet: &[u8]) -> Option<Reference> {
        if payload_type != PAYLOAD_TYPE_MP2T {
            return None;
        }
        let payload = without_padding(&Header::parse(packet)?, packet.get(HEADER_LENGTH..)?)?;
        let (packets, _) = payload.get(payload.len() % PACKET_LENGTH..)?.as_chunks::<PACKET_LENGTH>();
        packets.iter().find_map(|bytes| {
            let packet = Packet::new(bytes)?;
            let adaptation = packet.adaptation()?;
            let (pcr, discontinuity) = (adaptation.pcr()?, adaptation.discontinuity());
            Some(Reference { pid: packet.pid(), pcr, discontinuity })
        })
    }
}

/// Progress of the clock of a source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// Last reference of the first PID that had one, and its arrival time.
    last: Option<(Reference, i64)>,
    /// Progress of the clock, and time passed meanwhile.
    media_us: i64,
    span_us: i64,
}

impl Pace {
    /// Notes a reference. `counts` is false if the interval before it is not judged.
    pub(crate) fn observe(&mut self, reference: Reference, arrival_us: i64, counts: bool) {
        if self.last.is_some_and(|(last, _)| last.pid != reference.pid) {
            return;
        }
        let Some((last, last_us)) = self.last.replace((reference, arrival_us)) else { return };
        let waited_us = arrival_us - last_us;
        let step_us =
            reference.pcr.since(last.pcr).map(|ticks| (ticks / (TICKS_PER_SECOND / 1_000_000)) as i64);
        // A clock that does not advance gives no measurement.
        let Some(step_us) = step_us.filter(|step| *step > 0) else { return };
        if counts && !reference.discontinuity {
            self.media_us += if step_us <= waited_us + SKIP_US { step_us } else { 0 };
            self.span_us += waited_us;
        }
    }

    /// Forgets the last reference: the next reference is of another playback.
    pub(crate) fn rewind(&mut self) {
        self.last = None;
    }

    /// Pace: seconds of media per second; `None` if too few media arrived for a measurement.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.span_us >= LEAST_SPAN_US).then(|| self.media_us as f64 / self.span_us as f64)
    }

    /// Returns whether media arrived at less than their rate.
    pub(crate) fn is_slow(&self) -> bool {
        self.share().is_some_and(|share| share < LEAST_PACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(ms: u64) -> Reference {
        Reference { pid: 256, pcr: Pcr::new(ms * 27_000), discontinuity: false }
    }

    /// Pace of a clock with a reference for each 40 ms of media, sent at `speed`.
    fn pace(speed: f64, milliseconds: u64) -> Pace {
        let mut pace = Pace::default();
        for ms in (0..milliseconds).step_by(40) {
            pace.observe(reference(ms), (ms as f64 * 1000.0 / speed) as i64, true);
        }
        pace
    }

    /// Promise: Media received at less than 0.9 of its rate is not timely, whatever the RTP timestamps say.
    #[test]
    fn media_below_their_rate_are_slow() {
        assert!(pace(0.35, 4_000).is_slow());
        assert!(!pace(0.95, 4_000).is_slow());
        assert!(!pace(1.2, 4_000).is_slow());
        assert_eq!(pace(0.5, 1_000).share(), None, "too short to tell");
    }

    /// Promise: Media that a server skips does not count as received.
    #[test]
    fn a_jump_of_the_clock_is_no_media() {
        let skipping = |discontinuity| {
            let mut pace = Pace::default();
            for second in 0..10 {
                for ms in (0..1000).step_by(100) {
                    // In each period, 0.5 s of media are played and 5 s are skipped.
                    let reference = reference(second * 5_500 + ms / 2);
                    let discontinuity = discontinuity && ms == 0;
                    let arrival_us = (second * 1000 + ms) as i64 * 1000;
                    pace.observe(Reference { discontinuity, ..reference }, arrival_us, true);
                }
            }
            pace.share().unwrap()
        };
        assert!((skipping(false) - 0.45).abs() < 0.01, "{}", skipping(false));
        assert!((skipping(true) - 0.5).abs() < 0.01, "a discontinuity that is told is left out");
    }

    #[test]
    fn other_clocks_jumps_and_what_does_not_count_are_left_out() {
        let mut pace = pace(1.0, 4_000);
        pace.observe(Reference { pid: 257, ..reference(90_000) }, 4_000_000, true);
        pace.observe(reference(90_000), 4_000_000, true);
        pace.observe(reference(90_000), 5_000_000, true);
        pace.observe(reference(10), 6_000_000, true);
        pace.observe(Reference { discontinuity: true, ..reference(20) }, 7_000_000, true);
        pace.observe(reference(30), 8_000_000, false);
        pace.rewind();
        pace.observe(reference(40), 9_000_000, true);
        let share = pace.share().unwrap();
        assert!((share - 3.96 / 4.0).abs() < 0.001, "{share}: the first jump, without a flag, is no media");
    }

    #[test]
    fn references_are_found_behind_headers_of_any_length() {
        let mut transport = [0xff; 2 * PACKET_LENGTH];
        transport[..4].copy_from_slice(&[0x47, 0x01, 0x00, 0x10]);
        let pcr = [0x47, 0x01, 0x01, 0x30, 7, 0x10, 0, 0, 0, 45, 0x7e, 0];
        transport[PACKET_LENGTH..][..pcr.len()].copy_from_slice(&pcr);
        for header in [12, 16, 24] {
            let packet = [&vec![0x80; header][..], &transport].concat();
            let found = Reference::find(PAYLOAD_TYPE_MP2T, &packet).unwrap();
            assert_eq!((found.pid, found.pcr.ticks(), found.discontinuity), (257, 90 * 300, false));
            assert!(Reference::find(96, &packet).is_none());
        }
        assert!(Reference::find(PAYLOAD_TYPE_MP2T, &[0x80; 5]).is_none());
    }
}
