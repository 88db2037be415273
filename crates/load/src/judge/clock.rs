//! Media clock: converts RTP timestamps to microseconds on a continuous time axis, across wraps and
//! discontinuities.

/// Jump of the timestamps, beyond the jump that the arrival time explains, that counts as a discontinuity.
const JUMP_US: i64 = 10_000_000;

/// The same limit for a packet with the marker set, which marks a discontinuity (RFC 2250 section 2).
const MARKED_JUMP_US: i64 = 1_000_000;

/// Media clock of a source.
#[derive(Clone, Debug)]
pub(crate) struct MediaClock {
    hz: u32,
    last: Option<Last>,
    /// Number of discontinuities so far.
    pub(crate) jumps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    timestamp: u32,
    ticks: i64,
    arrival_us: i64,
}

impl MediaClock {
    /// Clock with this rate, at least 1 Hz.
    pub(crate) fn new(hz: u32) -> MediaClock {
        MediaClock { hz: hz.max(1), last: None, jumps: 0 }
    }

    /// Media time of a packet; 0 for the first packet. After a discontinuity, the media time continues by the
    /// arrival time.
    pub(crate) fn time_us(&mut self, timestamp: u32, is_marked: bool, arrival_us: i64) -> i64 {
        let Some(last) = self.last else {
            self.last = Some(Last { timestamp, ticks: 0, arrival_us });
            return 0;
        };
        let step = i64::from(timestamp.wrapping_sub(last.timestamp) as i32);
        let (step_us, waited_us) = (self.microseconds(step), arrival_us - last.arrival_us);
        let limit = if is_marked { MARKED_JUMP_US } else { JUMP_US };
        let jumps = step_us.abs() > limit && (step_us - waited_us).abs() > limit;
        let ticks = if jumps {
            self.jumps += 1;
            last.ticks + waited_us * i64::from(self.hz) / 1_000_000
        } else {
            last.ticks + step
        };
        self.last = Some(Last { timestamp, ticks, arrival_us });
        self.microseconds(ticks)
    }

    fn microseconds(&self, ticks: i64) -> i64 {
        (i128::from(ticks) * 1_000_000 / i128::from(self.hz)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_wrap() {
        let mut clock = MediaClock::new(90_000);
        assert_eq!(clock.time_us(u32::MAX - 899, false, 0), 0);
        assert_eq!(clock.time_us(900, false, 20_000), 20_000);
        assert_eq!(clock.time_us(u32::MAX - 899, false, 20_000), 0);
        assert_eq!(clock.jumps, 0);
    }

    #[test]
    fn a_jump_goes_on_as_time_does() {
        let mut clock = MediaClock::new(90_000);
        clock.time_us(0, false, 0);
        assert_eq!(clock.time_us(90_000 * 60, false, 30_000), 30_000);
        assert_eq!(clock.time_us(90_000 * 60 + 900, false, 40_000), 40_000);
        assert_eq!(clock.time_us(900, true, 50_000), 50_000);
        assert_eq!(clock.jumps, 2);
    }

    #[test]
    fn a_sender_that_was_silent_is_late_and_has_no_discontinuity() {
        let mut clock = MediaClock::new(90_000);
        clock.time_us(0, false, 0);
        assert_eq!(clock.time_us(900, false, 30_000_000), 10_000);
        // Media lost while nothing arrived are not a discontinuity, either.
        assert_eq!(clock.time_us(900 + 90_000 * 15, false, 45_000_000), 15_010_000);
        assert_eq!(clock.jumps, 0);
    }

    #[test]
    fn extreme_rates_and_timestamps_are_times() {
        for hz in [0, 1, u32::MAX] {
            let mut clock = MediaClock::new(hz);
            for timestamp in [0, 1 << 31, u32::MAX, 1, 0x7fff_ffff] {
                clock.time_us(timestamp, true, i64::from(timestamp));
            }
        }
    }
}
