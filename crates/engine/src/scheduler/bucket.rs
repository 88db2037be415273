//! Token bucket, stored as the time at which it will be full. No timer is needed to fill it.

use super::Rate;

const NANOSECONDS: u128 = 1_000_000_000;

/// State of a rate. The bucket is open while tokens are left; spending more closes it for longer.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// Time at which the bucket is full, in nanoseconds; in the past if it is already full.
    full_ns: u128,
}

impl Bucket {
    pub(super) fn new(rate: Rate) -> Bucket {
        let rate = Rate { per_second: rate.per_second.max(1), burst: rate.burst.max(1) };
        Bucket { rate, full_ns: 0 }
    }

    /// Bucket of another rate with the same number of spent tokens, but at most the burst of the new rate.
    pub(super) fn with(&self, rate: Rate, now_us: u64) -> Bucket {
        let mut bucket = Bucket::new(rate);
        let spent = self.rate.burst - self.level(now_us);
        bucket.spend(spent.min(bucket.rate.burst), now_us);
        bucket
    }

    /// Time at which the bucket has a token, in microseconds; in the past if it has one now.
    pub(super) fn open_us(&self) -> u64 {
        // The bucket has one token this long before it is full.
        let before_full_ns = self.time_of(self.rate.burst - 1);
        u64::try_from(self.full_ns.saturating_sub(before_full_ns).div_ceil(1000)).unwrap_or(u64::MAX)
    }

    pub(super) fn level(&self, now_us: u64) -> u64 {
        let missing_ns = self.full_ns.saturating_sub(u128::from(now_us) * 1000);
        let missing = (missing_ns * u128::from(self.rate.per_second)).div_ceil(NANOSECONDS);
        self.rate.burst.saturating_sub(u64::try_from(missing).unwrap_or(u64::MAX))
    }

    pub(super) fn spend(&mut self, cost: u64, now_us: u64) {
        self.full_ns = self.full_ns.max(u128::from(now_us) * 1000) + self.time_of(cost);
    }

    /// Time in which the rate yields `cost` tokens, in nanoseconds.
    fn time_of(&self, cost: u64) -> u128 {
        (u128::from(cost) * NANOSECONDS).div_ceil(u128::from(self.rate.per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = Bucket::new(Rate { per_second: 1000, burst: 50 });
        let now_us = 7_000_000;
        assert_eq!((bucket.level(now_us), bucket.open_us() <= now_us), (50, true));
        bucket.spend(50, now_us);
        assert_eq!((bucket.level(now_us), bucket.open_us()), (0, now_us + 1000));
        assert_eq!(bucket.level(now_us + 10_000), 10);
        bucket.spend(30, now_us + 10_000);
        assert_eq!(bucket.open_us(), now_us + 31_000, "spent 20 beyond what was left");
        assert_eq!(bucket.level(now_us + 10_000_000), 50, "no more than the burst gathers");
    }
}
