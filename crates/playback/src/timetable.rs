//! Timetable of a playback: the times at which departures of the source leave.

use crate::speed::Speed;

/// While a shift is made up, each burst leaves earlier by its length divided by this. Catching up faster would send
/// bursts that switches and receivers have to queue.
const CATCH_UP_PART: u64 = 8;

/// Longest shift that is made up, in microseconds. A machine may stand still for hours.
const CATCH_UP_LIMIT_US: u64 = 2_000_000;

/// Timetable of a playing playback. The source's time, divided by the speed, is divided into bursts. The
/// departures in a burst leave together when the burst begins. The length may change from one burst to the
/// next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timetable {
    speed: Speed,
    /// Time of CLOCK_MONOTONIC, in microseconds, at which the start of the source would have left.
    origin_us: i64,
    /// Time of CLOCK_MONOTONIC at which the burst leaves.
    due_us: u64,
    /// End of the burst, in microseconds after the time at which the start of the source would have left.
    end_us: u64,
    length_us: u64,
    /// Part of the shifts that is not made up yet, in microseconds.
    behind_us: u64,
}

impl Timetable {
    /// The timetable by which the burst with the departure `at_us` leaves at `due_us`.
    pub(crate) fn starting(at_us: u64, due_us: u64, length_us: u64, speed: Speed) -> Timetable {
        let begin_us = begin_us(speed.time_us(at_us), length_us);
        Timetable {
            speed,
            origin_us: due_us as i64 - begin_us as i64,
            due_us,
            end_us: begin_us + length_us,
            length_us,
            behind_us: 0,
        }
    }

    /// The timetable at the normal speed by which the departure `at_us` would leave at `time_us` if it were alone
    /// in its burst.
    pub(crate) fn placing(at_us: u64, time_us: u64, length_us: u64) -> Timetable {
        let into_burst_us = at_us - begin_us(at_us, length_us);
        Timetable::starting(at_us, time_us.saturating_sub(into_burst_us), length_us, Speed::NORMAL)
    }

    /// Time at which the departure `at_us` is due. A departure after the burst begins the next burst, of this
    /// length.
    ///
    /// A longer burst may have begun before the end of the last one, which has left completely: it then
    /// leaves when a burst of the old length would have.
    pub(crate) fn due_us(&mut self, at_us: u64, length_us: u64) -> u64 {
        let time_us = self.speed.time_us(at_us);
        if time_us >= self.end_us {
            self.catch_up();
            let begin_us = begin_us(time_us, length_us);
            self.due_us = self.clock_us(begin_us.max(self.end_us));
            self.end_us = begin_us + length_us;
            self.length_us = length_us;
        }
        self.due_us
    }

    /// Speed of the playback.
    pub(crate) fn speed(&self) -> Speed {
        self.speed
    }

    /// End of the burst in the source's time, in microseconds.
    pub(crate) fn end_us(&self) -> u64 {
        self.speed.source_us(self.end_us)
    }

    /// Length of the burst in microseconds.
    pub(crate) fn length_us(&self) -> u64 {
        self.length_us
    }

    /// Time of CLOCK_MONOTONIC, in microseconds, for a time of the source.
    pub(crate) fn time_of(&self, at_us: u64) -> u64 {
        self.clock_us(self.speed.time_us(at_us))
    }

    fn clock_us(&self, time_us: u64) -> u64 {
        self.origin_us.saturating_add_unsigned(time_us).try_into().unwrap_or(0)
    }

    /// Shifts the timetable so that the burst is due now. Later bursts follow each other faster, until the shift is
    /// made up.
    pub(crate) fn resync(&mut self, now_us: u64) {
        let late_us = now_us.saturating_sub(self.due_us);
        self.origin_us += now_us as i64 - self.due_us as i64;
        self.due_us = now_us;
        self.behind_us = (self.behind_us + late_us).min(CATCH_UP_LIMIT_US);
    }

    /// Shifts the timetable so that the burst is due now, for good: what leaves did not exist earlier.
    pub(crate) fn delay(&mut self, now_us: u64) {
        self.origin_us += now_us as i64 - self.due_us as i64;
        self.due_us = now_us;
    }

    /// Part of the shifts that is not made up yet, in microseconds.
    pub(crate) fn behind_us(&self) -> u64 {
        self.behind_us
    }

    /// Makes up a part of the shifts before the next burst.
    fn catch_up(&mut self) {
        let step_us = self.behind_us.min(self.length_us / CATCH_UP_PART);
        self.origin_us -= step_us as i64;
        self.behind_us -= step_us;
    }
}

/// Begin of the burst of this length that contains a time.
pub(crate) fn begin_us(time_us: u64, length_us: u64) -> u64 {
    time_us - time_us % length_us
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn departures_of_a_burst_are_due_when_it_begins() {
        let mut timetable = Timetable::starting(1_025_000, 7_000_000, 20_000, Speed::NORMAL);
        assert_eq!(timetable.due_us(1_025_000, 20_000), 7_000_000);
        assert_eq!(timetable.due_us(1_039_999, 20_000), 7_000_000);
        assert_eq!(timetable.due_us(1_040_000, 20_000), 7_020_000);
        assert_eq!(timetable.due_us(1_145_000, 20_000), 7_120_000, "nothing departed for some bursts");
        timetable.resync(7_500_000);
        assert_eq!(timetable.due_us(1_159_999, 20_000), 7_500_000);
        assert_eq!(timetable.due_us(1_160_000, 20_000), 7_517_500);
    }

    /// Promise: A playback that was late by more than 250 ms sends an eighth faster until it is back in its timetable.
    #[test]
    fn a_timetable_that_was_moved_catches_up() {
        let mut timetable = Timetable::starting(0, 5_000_000, 20_000, Speed::NORMAL);
        timetable.resync(5_300_000);
        let mut last_us = timetable.due_us(0, 20_000);
        assert_eq!((last_us, timetable.behind_us()), (5_300_000, 300_000));
        for burst in 1..=120 {
            let due_us = timetable.due_us(20_000 * burst, 20_000);
            assert_eq!(due_us - last_us, 17_500);
            last_us = due_us;
        }
        assert_eq!((last_us, timetable.behind_us()), (5_000_000 + 120 * 20_000, 0));
        assert_eq!(timetable.due_us(121 * 20_000, 20_000), 5_000_000 + 121 * 20_000);

        timetable.resync(3_600_000_000);
        assert_eq!(timetable.behind_us(), CATCH_UP_LIMIT_US, "the machine stood still for an hour");
    }

    /// Promise: A playback that waited for a recorder stays later by that time, and does not run into the edge again.
    #[test]
    fn a_delayed_timetable_does_not_catch_up() {
        let mut timetable = Timetable::starting(0, 5_000_000, 20_000, Speed::NORMAL);
        timetable.delay(5_300_000);
        assert_eq!((timetable.due_us(0, 20_000), timetable.behind_us()), (5_300_000, 0));
        assert_eq!(timetable.due_us(20_000, 20_000), 5_320_000);
        assert_eq!(timetable.due_us(1_000_000, 20_000), 6_300_000);
    }

    #[test]
    fn a_longer_burst_leaves_when_the_next_short_one_would_have() {
        let mut timetable = Timetable::starting(0, 5_000_000, 10_000, Speed::NORMAL);
        assert_eq!(timetable.due_us(10_000, 10_000), 5_010_000);
        assert_eq!(timetable.due_us(20_000, 100_000), 5_020_000);
        assert_eq!(timetable.end_us(), 100_000);
        assert_eq!(timetable.due_us(100_000, 10_000), 5_100_000);
    }

    /// Promise: With Speed, bursts leave as often as at normal speed, each with proportionally more or fewer
    /// packets.
    #[test]
    fn at_a_speed_bursts_are_as_long_and_have_more_or_less() {
        let mut timetable = Timetable::starting(1_000_000, 7_000_000, 20_000, Speed::nearest(4.0));
        assert_eq!(timetable.end_us(), 1_040_000, "240 to 260 ms at 4 times the speed");
        assert_eq!(timetable.due_us(1_039_999, 20_000), 7_000_000);
        assert_eq!(timetable.due_us(1_040_000, 20_000), 7_020_000);
        assert_eq!(timetable.due_us(1_120_000, 20_000), 7_040_000);
        assert_eq!(timetable.time_of(5_000_000) - timetable.time_of(1_000_000), 1_000_000);
        timetable.resync(8_000_000);
        assert_eq!(timetable.due_us(1_200_000, 20_000), 8_017_500);

        let mut slow = Timetable::starting(0, 5_000_000, 20_000, Speed::LEAST);
        assert_eq!(slow.end_us(), 5_000);
        assert_eq!(slow.due_us(5_000, 20_000), 5_020_000);
        assert_eq!(slow.due_us(1_000_000, 20_000), 9_000_000);
    }

    proptest! {
        /// Promise: When the length of bursts changes, no packet is late or out of order.
        #[test]
        fn nothing_is_late_or_earlier_than_a_burst_however_lengths_change(
            steps in prop::collection::vec((0_u64..60_000, 1_u64..100_000), 1..50), factor in 0.25_f64..8.0,
        ) {
            let (mut at_us, mut last_due_us, speed) = (0, 0, Speed::nearest(factor));
            let mut timetable = Timetable::starting(0, 1_000_000, 10_000, speed);
            let mut longest_us = 10_000;
            for (gap_us, length_us) in steps {
                at_us += gap_us;
                longest_us = longest_us.max(length_us);
                let due_us = timetable.due_us(at_us, length_us);
                prop_assert!(due_us >= last_due_us);
                let time_us = speed.time_us(at_us);
                prop_assert!(due_us <= 1_000_000 + time_us, "after its time");
                prop_assert!(due_us + longest_us > 1_000_000 + time_us, "more than a burst before its time");
                prop_assert!(at_us < timetable.end_us());
                last_due_us = due_us;
            }
        }
    }
}
