//! Distribution of times, counted by any thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use wirepath_counters::{Histogram, Instrument, Value};

/// Bounds of the buckets, in microseconds.
const BOUNDS_US: [u64; 8] = [1_000, 2_000, 5_000, 20_000, 100_000, 500_000, 2_000_000, 10_000_000];

/// Counts of times, in buckets.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// Counts of times up to each bound and above the previous bound.
    buckets: [AtomicU64; BOUNDS_US.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl Latency {
    /// Records a time.
    pub(super) fn record(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = BOUNDS_US.iter().position(|&bound| us <= bound) {
            self.buckets[bucket].fetch_add(1, Relaxed);
        }
        self.count.fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }
}

impl Instrument for Latency {
    type Reading = Histogram;

    fn read(&self) -> Histogram {
        let mut sum = 0;
        let at_most = BOUNDS_US.iter().zip(&self.buckets).map(|(&bound_us, bucket)| {
            sum += bucket.load(Relaxed);
            (bound_us as f64 / 1e6, sum)
        });
        let at_most: Vec<_> = at_most.collect();
        // Loaded later, so that it is not less than the sum of the buckets.
        let count = self.count.load(Relaxed).max(sum);
        Histogram { count, sum: self.sum_us.load(Relaxed) as f64 / 1e6, at_most }
    }

    fn add(sum: &mut Histogram, more: Histogram) {
        if sum.at_most.is_empty() {
            sum.at_most = more.at_most;
        } else {
            sum.at_most.iter_mut().zip(more.at_most).for_each(|(sum, more)| sum.1 += more.1);
        }
        sum.count += more.count;
        sum.sum += more.sum;
    }

    fn value(reading: &Histogram) -> Value {
        // A snapshot that was never loaded has no buckets.
        if reading.at_most.is_empty() {
            return Value::Histogram(Latency::default().read());
        }
        Value::Histogram(reading.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_up_to_bounds() {
        let latency = Latency::default();
        for ms in [1, 3, 3, 60_000] {
            latency.record(Duration::from_millis(ms));
        }
        let mut reading = latency.read();
        assert_eq!((reading.count, reading.sum), (4, 60.007));
        assert_eq!(reading.at_most[..3], [(0.001, 1), (0.002, 1), (0.005, 3)]);
        assert_eq!(reading.at_most.last(), Some(&(10.0, 3)));
        Latency::add(&mut reading, latency.read());
        assert_eq!((reading.count, reading.at_most[2]), (8, (0.005, 6)));
    }
}
