//! Stall detection: time since the last progress, sampled.

/// Number of samples within the time limit of a stall. A stall is thus detected at most a quarter late.
pub const STALL_SAMPLES: u32 = 4;

/// Stall detector: measures the time since a measure of progress last changed.
///
/// The measure need not include the time of its change. For example, the number of bytes that a connection
/// has accepted and its peer has not acknowledged is only compared with the last sample.
#[derive(Debug)]
pub struct StallDetector<T> {
    /// Last measure, and the time of the first sample with this value, in microseconds of CLOCK_MONOTONIC.
    last: Option<(T, u64)>,
}

impl<T> Default for StallDetector<T> {
    /// A detector without samples.
    fn default() -> StallDetector<T> {
        StallDetector { last: None }
    }
}

impl<T: PartialEq> StallDetector<T> {
    /// Takes a sample. Returns the time in microseconds for which the measure has had this value; 0 for the
    /// first sample.
    pub fn sample(&mut self, progress: T, now_us: u64) -> u64 {
        let since_us = match &self.last {
            Some((last, since_us)) if *last == progress => *since_us,
            _ => now_us,
        };
        self.last = Some((progress, since_us));
        now_us.saturating_sub(since_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_sample_that_saw_the_last_change() {
        let mut detector = StallDetector::default();
        assert_eq!(detector.sample((1, 2), 1000), 0, "the first sample");
        assert_eq!(detector.sample((1, 2), 1500), 500);
        assert_eq!(detector.sample((1, 3), 2000), 0, "one of two measures has changed");
        assert_eq!(detector.sample((1, 2), 2500), 0, "and back");
        assert_eq!(detector.sample((1, 2), 4000), 1500);
        assert_eq!(detector.sample((1, 2), 3000), 500, "samples of two threads may come in any order");
    }
}
