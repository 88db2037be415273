//! Timetable of a playback: when what departs at a time of the source leaves.

/// Timetable of a playback that plays. The source's time is divided into bursts; what departs in a burst
/// leaves together when the burst begins. Bursts may change their length from one to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timetable {
    /// Time of CLOCK_MONOTONIC, in microseconds, at which the start of the source would have left.
    origin_us: i64,
    /// Time of CLOCK_MONOTONIC at which the burst leaves.
    due_us: u64,
    /// End of the burst in the source's time.
    end_us: u64,
    length_us: u64,
}

impl Timetable {
    /// The timetable by which the burst with the departure `at_us` leaves at `due_us`.
    pub(crate) fn starting(at_us: u64, due_us: u64, length_us: u64) -> Timetable {
        let begin_us = at_us - at_us % length_us;
        Timetable {
            origin_us: due_us as i64 - begin_us as i64,
            due_us,
            end_us: begin_us + length_us,
            length_us,
        }
    }

    /// Time at which the departure `at_us` is due. One behind the burst begins the next, of this length.
    ///
    /// A longer burst may have begun before the end of the last one, all of which has left: then it leaves
    /// when a burst of the old length would have.
    pub(crate) fn due_us(&mut self, at_us: u64, length_us: u64) -> u64 {
        if at_us >= self.end_us {
            let begin_us = at_us - at_us % length_us;
            self.due_us = self.time_of(begin_us.max(self.end_us));
            self.end_us = begin_us + length_us;
            self.length_us = length_us;
        }
        self.due_us
    }

    /// End of the burst in the source's time, in microseconds.
    pub(crate) fn end_us(&self) -> u64 {
        self.end_us
    }

    /// Length of the burst in microseconds.
    pub(crate) fn length_us(&self) -> u64 {
        self.length_us
    }

    /// Time of CLOCK_MONOTONIC, in microseconds, that a time of the source is at.
    pub(crate) fn time_of(&self, at_us: u64) -> u64 {
        self.origin_us.saturating_add_unsigned(at_us).try_into().unwrap_or(0)
    }

    /// Moves the timetable such that the burst is due now.
    pub(crate) fn resync(&mut self, now_us: u64) {
        self.origin_us += now_us as i64 - self.due_us as i64;
        self.due_us = now_us;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn departures_of_a_burst_are_due_when_it_begins() {
        let mut timetable = Timetable::starting(1_025_000, 7_000_000, 20_000);
        assert_eq!(timetable.due_us(1_025_000, 20_000), 7_000_000);
        assert_eq!(timetable.due_us(1_039_999, 20_000), 7_000_000);
        assert_eq!(timetable.due_us(1_040_000, 20_000), 7_020_000);
        assert_eq!(timetable.due_us(1_145_000, 20_000), 7_120_000, "nothing departed for some bursts");
        timetable.resync(7_500_000);
        assert_eq!(timetable.due_us(1_159_999, 20_000), 7_500_000);
        assert_eq!(timetable.due_us(1_160_000, 20_000), 7_520_000);
    }

    #[test]
    fn a_longer_burst_leaves_when_the_next_short_one_would_have() {
        let mut timetable = Timetable::starting(0, 5_000_000, 10_000);
        assert_eq!(timetable.due_us(10_000, 10_000), 5_010_000);
        assert_eq!(timetable.due_us(20_000, 100_000), 5_020_000);
        assert_eq!(timetable.end_us(), 100_000);
        assert_eq!(timetable.due_us(100_000, 10_000), 5_100_000);
    }

    proptest! {
        /// Promise: Bursts change their length without a packet that is late or out of order.
        #[test]
        fn nothing_is_late_or_earlier_than_a_burst_however_lengths_change(
            steps in prop::collection::vec((0_u64..60_000, 1_u64..100_000), 1..50)
        ) {
            let (mut at_us, mut last_due_us) = (0, 0);
            let mut timetable = Timetable::starting(0, 1_000_000, 10_000);
            let mut longest_us = 10_000;
            for (gap_us, length_us) in steps {
                at_us += gap_us;
                longest_us = longest_us.max(length_us);
                let due_us = timetable.due_us(at_us, length_us);
                prop_assert!(due_us >= last_due_us);
                prop_assert!(due_us <= 1_000_000 + at_us, "after its time");
                prop_assert!(due_us + longest_us > 1_000_000 + at_us, "more than a burst before its time");
                prop_assert!(at_us < timetable.end_us());
                last_due_us = due_us;
            }
        }
    }
}
