//! Timeline of a programme: turns timestamps of 33 bits, which wrap and jump, into continuous times.

use super::TICKS_PER_SECOND;

/// Longest steps backward and forward in the timestamps of a track. Longer steps are discontinuities, across
/// which time continues.
const MAX_BACK: i64 = TICKS_PER_SECOND as i64 / 2;
const MAX_FORWARD: i64 = 10 * TICKS_PER_SECOND as i64;

/// Range of timestamps, after which they wrap.
const MODULUS: i64 = 1 << 33;

/// Times of all tracks of a programme, in ticks of 90 kHz.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// Time minus timestamp; and the same before the last jump, because other tracks jump a little later.
    offset: i64,
    before: i64,
}

impl Timeline {
    /// Timeline on which the timestamp `zero` is time 0.
    pub(super) fn new(zero: u64) -> Self {
        let offset = -(zero as i64);
        Self { offset, before: offset }
    }

    /// Converts a timestamp of a track to a time. `expected`: expected time; `first`: first timestamp of the
    /// track.
    pub(super) fn place(&mut self, stamp: u64, expected: i64, first: bool) -> i64 {
        let step = |offset: i64| difference(stamp as i64 + offset, expected);
        let (now, before) = (step(self.offset), step(self.before));
        let nearest = if before.abs() < now.abs() { before } else { now };
        let back = if first { MAX_FORWARD } else { MAX_BACK };
        if (-back..=MAX_FORWARD).contains(&nearest) {
            return expected + nearest;
        }
        (self.before, self.offset) = (self.offset, expected - stamp as i64);
        expected
    }
}

/// Shortest signed difference between two timestamps, across a wrap if necessary.
pub(super) fn difference(to: i64, from: i64) -> i64 {
    (to - from + MODULUS / 2).rem_euclid(MODULUS) - MODULUS / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = TICKS_PER_SECOND as i64;

    /// Promise: A wrap of the 33-bit PTS and DTS causes no jump in the times of tracks.
    #[test]
    fn a_wrap_is_no_step() {
        let zero = MODULUS - 5 * SECOND;
        let mut timeline = Timeline::new(zero as u64);
        let mut expected = 0;
        for second in 0..20 {
            let stamp = (zero + second * SECOND).rem_euclid(MODULUS) as u64;
            assert_eq!(timeline.place(stamp, expected, second == 0), second * SECOND);
            expected = (second + 1) * SECOND;
        }
    }

    /// Promise: Across a jump of the timestamps, tracks continue without a gap and stay in sync.
    #[test]
    fn tracks_jump_together() {
        let mut timeline = Timeline::new(0);
        assert_eq!(timeline.place(0, 0, true), 0);
        assert_eq!(timeline.place(9000, 9000, true), 9000);
        // Video starts over. Audio does so a little later; its delay of 100 ms does not change.
        assert_eq!(timeline.place(0, 2 * SECOND, false), 2 * SECOND);
        let sound = 2 * SECOND - SECOND / 10;
        assert_eq!(timeline.place(sound as u64, sound, false), sound, "not yet");
        assert_eq!(timeline.place(9000, 2 * SECOND + 8000, false), 2 * SECOND + 9000);
        assert_eq!(timeline.place(SECOND as u64, 3 * SECOND, false), 3 * SECOND);
    }

    #[test]
    fn a_gap_is_kept() {
        let mut timeline = Timeline::new(0);
        assert_eq!(timeline.place(4 * SECOND as u64, SECOND, false), 4 * SECOND);
        assert_eq!(timeline.place(60 * SECOND as u64, 5 * SECOND, false), 5 * SECOND, "too long");
    }
}
