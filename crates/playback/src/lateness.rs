//! Lateness of trains: a histogram written by one thread and read by others.
//!
//! Not `hdrhistogram`: a reader of its `SyncHistogram` waits until every writer records again, even an idle
//! one.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wirepath_counters::{Histogram, Instrument, Value};

/// Buckets per doubling: values are known to within an eighth.
const STEPS: u64 = 8;
/// Up to 2^24 microseconds, 17 seconds; larger values count as this one.
const BUCKETS: usize = (STEPS * 22) as usize;

/// Bounds of the coarser histogram for metrics, in microseconds.
const BOUNDS_US: [u64; 12] =
    [250, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 40_000, 100_000, 250_000, 1_000_000];

/// Counts of lateness in microseconds, in buckets that grow with their value. Written by one thread.
pub(crate) struct Lateness {
    buckets: [AtomicU64; BUCKETS],
    largest_us: AtomicU64,
    sum_us: AtomicU64,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            largest_us: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
        }
    }
}

impl Lateness {
    /// Counts one train. Only for the thread that owns the histogram, since its additions are not atomic.
    #[inline]
    pub(crate) fn record(&self, late_us: u64) {
        let bucket = &self.buckets[bucket(late_us)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
        self.sum_us.store(self.sum_us.load(Relaxed).wrapping_add(late_us), Relaxed);
        if late_us > self.largest_us.load(Relaxed) {
            self.largest_us.store(late_us, Relaxed);
        }
    }
}

impl fmt::Debug for Lateness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(formatter)
    }
}

impl Instrument for Lateness {
    type Reading = LatenessSnapshot;

    fn read(&self) -> LatenessSnapshot {
        LatenessSnapshot {
            counts: self.buckets.each_ref().map(|bucket| bucket.load(Relaxed)),
            largest_us: self.largest_us.load(Relaxed),
            sum_us: self.sum_us.load(Relaxed),
        }
    }

    fn add(sum: &mut LatenessSnapshot, more: LatenessSnapshot) {
        sum.counts.iter_mut().zip(more.counts).for_each(|(sum, more)| *sum += more);
        sum.largest_us = sum.largest_us.max(more.largest_us);
        sum.sum_us = sum.sum_us.wrapping_add(more.sum_us);
    }

    fn value(reading: &LatenessSnapshot) -> Value {
        Value::Histogram(Histogram {
            count: reading.count(),
            sum: reading.sum_us as f64 / 1e6,
            at_most: reading.histogram().map(|(us, count)| (us as f64 / 1e6, count)).collect(),
        })
    }
}

/// Lateness of the trains of all threads at one time.
#[derive(Clone, Debug)]
pub struct LatenessSnapshot {
    counts: [u64; BUCKETS],
    largest_us: u64,
    sum_us: u64,
}

impl Default for LatenessSnapshot {
    fn default() -> LatenessSnapshot {
        LatenessSnapshot { counts: [0; BUCKETS], largest_us: 0, sum_us: 0 }
    }
}

impl LatenessSnapshot {
    /// Number of trains.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Lateness of the trains since an earlier time. The largest value is that of all trains.
    #[must_use]
    pub fn since(&self, earlier: &LatenessSnapshot) -> LatenessSnapshot {
        let mut since = self.clone();
        since
            .counts
            .iter_mut()
            .zip(earlier.counts)
            .for_each(|(count, earlier)| *count = count.saturating_sub(earlier));
        since.sum_us = since.sum_us.wrapping_sub(earlier.sum_us);
        since
    }

    /// Sum over all trains in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// The largest lateness in microseconds, exact.
    pub fn largest_us(&self) -> u64 {
        self.largest_us
    }

    /// Lateness in microseconds that a `fraction` (0 to 1) of the trains did not exceed, rounded up to the
    /// end of its bucket.
    pub fn quantile_us(&self, fraction: f64) -> u64 {
        let wanted = (self.count() as f64 * fraction).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= wanted {
                return upper_us(index).min(self.largest_us);
            }
        }
        self.largest_us
    }

    /// Pairs of a bound in microseconds and the number of trains at most that late, for metrics.
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        BOUNDS_US.into_iter().map(|us| (us, self.at_most(us)))
    }

    fn at_most(&self, late_us: u64) -> u64 {
        self.cumulative()
            .take_while(|(upper_us, _)| *upper_us <= late_us)
            .last()
            .map_or(0, |(_, count)| count)
    }

    /// Pairs of the upper end of a bucket in microseconds and the number of trains at most that late.
    fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().scan(0, |sum, (index, count)| {
            *sum += count;
            Some((upper_us(index), *sum))
        })
    }
}

/// Linear up to `2 * STEPS`, then `STEPS` buckets for each doubling.
#[inline]
fn bucket(value: u64) -> usize {
    if value < 2 * STEPS {
        return value as usize;
    }
    let doublings = u64::from(value.ilog2() - STEPS.ilog2());
    ((doublings * STEPS + (value >> doublings)) as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn upper_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let doublings = bucket / STEPS - 1;
    ((bucket - doublings * STEPS + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(value in 0u64..1 << 24) {
            let index = bucket(value);
            prop_assert!(value <= upper_us(index));
            prop_assert!(index == 0 || value > upper_us(index - 1));
            prop_assert!(upper_us(index) <= value + value / STEPS);
        }
    }

    #[test]
    fn quantiles_come_from_the_counts() {
        let lateness = Lateness::default();
        (1..=1000).for_each(|value| lateness.record(value));
        lateness.record(u64::MAX >> 1);
        let mut snapshot = LatenessSnapshot::default();
        Lateness::add(&mut snapshot, lateness.read());
        assert_eq!((snapshot.count(), snapshot.sum_us()), (1001, 500_500 + (u64::MAX >> 1)));
        assert!((500..=570).contains(&snapshot.quantile_us(0.5)), "{}", snapshot.quantile_us(0.5));
        assert_eq!(snapshot.quantile_us(1.0), upper_us(BUCKETS - 1));
        (0..10).for_each(|_| lateness.record(3));
        let since = lateness.read().since(&snapshot);
        assert_eq!((since.count(), since.sum_us(), since.quantile_us(1.0)), (10, 30, 3));
        assert_eq!(snapshot.cumulative().last(), Some((upper_us(BUCKETS - 1), 1001)));
        assert!((440..=500).contains(&snapshot.at_most(500)), "{}", snapshot.at_most(500));
        assert_eq!(LatenessSnapshot::default().quantile_us(0.99), 0);
    }
}
