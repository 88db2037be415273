//! Lateness of sessions in the last two intervals.

use std::time::Duration;

/// Trains that a measurement of lateness needs. An interval in which fewer were sent goes on.
const LEAST_TRAINS: u64 = 20;

/// Lateness of the 99th percentile beyond which sessions count as late: half of the 200 ms that receivers
/// buffer at least.
pub(crate) const LATE: Duration = Duration::from_millis(100);

/// Lateness of the 99th percentile in the last interval and in the one before. A machine that pauses for a moment
/// makes one interval late.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RecentLateness {
    last: Duration,
    before: Duration,
}

impl RecentLateness {
    /// Takes the lateness of so many trains, sent since the last interval that was taken. Returns whether it was taken;
    /// if not, the interval goes on.
    pub(super) fn take(&mut self, trains: u64, p99: Duration, plays: bool) -> bool {
        if !plays {
            *self = RecentLateness::default();
            return true;
        }
        let is_enough = trains >= LEAST_TRAINS;
        if is_enough {
            *self = RecentLateness { last: p99, before: self.last };
        }
        is_enough
    }

    /// Lateness in the last interval.
    pub(super) fn last(&self) -> Duration {
        self.last
    }

    /// Returns whether sessions were late in both intervals.
    pub(super) fn is_late(&self) -> bool {
        self.last.min(self.before) > LATE
    }

    /// Returns whether sessions were late in at least one of both intervals.
    pub(super) fn is_late_once(&self) -> bool {
        self.last.max(self.before) > LATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE_ENOUGH: Duration = Duration::from_millis(101);

    fn after(intervals: &[(u64, Duration)]) -> RecentLateness {
        let mut lateness = RecentLateness::default();
        for (trains, p99) in intervals {
            lateness.take(*trains, *p99, true);
        }
        lateness
    }

    /// Promise: Sessions count as late if they are in one interval after another.
    #[test]
    fn a_moment_makes_nobody_late() {
        assert!(after(&[(20, LATE_ENOUGH), (20, LATE_ENOUGH)]).is_late());
        assert!(!after(&[(20, LATE), (20, LATE_ENOUGH)]).is_late());
        assert!(!after(&[(20, LATE_ENOUGH), (20, LATE)]).is_late());
        assert!(after(&[(20, LATE_ENOUGH), (20, LATE)]).is_late_once());
        assert!(!after(&[(20, LATE_ENOUGH), (20, LATE), (20, LATE)]).is_late_once());
        assert_eq!(after(&[(20, LATE_ENOUGH), (20, LATE)]).last(), LATE);
    }

    /// Promise: A server that is too late to send much is still late; one without sessions is not.
    #[test]
    fn an_interval_of_few_trains_goes_on() {
        let mut lateness = after(&[(20, LATE_ENOUGH), (20, LATE_ENOUGH)]);
        assert!(!lateness.take(19, Duration::ZERO, true));
        assert!(lateness.is_late());
        assert!(lateness.take(0, Duration::ZERO, false));
        assert_eq!(lateness, RecentLateness::default());
    }
}
