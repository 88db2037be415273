//! Distribution of times and its quantiles.

use std::collections::BTreeMap;

/// Width of bins for times below [`FINE_LIMIT_US`].
const FINE_US: i64 = 100;

/// Limit, in both directions, of the times that are distinguished to within [`FINE_US`].
const FINE_LIMIT_US: i64 = 2_000_000;

/// Width of bins for times beyond [`FINE_LIMIT_US`].
const COARSE_US: i64 = 10_000;

/// Maximum absolute time. Times beyond it count as this time.
const LIMIT_US: i64 = 120_000_000;

/// Distribution of times in microseconds. The number of bins is bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distribution {
    /// Lower end of each bin, and the number of times in the bin.
    bins: BTreeMap<i64, u64>,
    count: u64,
    greatest: Option<i64>,
}

impl Distribution {
    /// Adds a time.
    pub(crate) fn add(&mut self, us: i64) {
        self.add_many(us, 1);
        self.greatest = self.greatest.max(Some(us));
    }

    fn add_many(&mut self, us: i64, count: u64) {
        *self.bins.entry(bin(us)).or_default() += count;
        self.count += count;
    }

    /// Adds all times of another distribution.
    pub(crate) fn add_all(&mut self, other: &Distribution) {
        for (us, count) in &other.bins {
            self.add_many(*us, *count);
        }
        self.greatest = self.greatest.max(other.greatest);
    }

    /// Adds, for each time of another distribution, its excess over `floor_us`; 0 for times below the floor.
    pub(crate) fn add_later_than(&mut self, other: &Distribution, floor_us: i64) {
        for (us, count) in &other.bins {
            self.add_many((us - bin(floor_us)).max(0), *count);
        }
        self.greatest = self.greatest.max(other.greatest.map(|greatest| (greatest - floor_us).max(0)));
    }

    /// Time that this share of all times does not exceed, to within the width of a bin; `None` if there are
    /// no times.
    pub(crate) fn quantile(&self, share: f64) -> Option<i64> {
        let greatest = self.greatest?;
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count);
        let mut below = 0;
        for (us, count) in &self.bins {
            below += count;
            if below >= rank {
                return Some((*us).min(greatest));
            }
        }
        Some(greatest)
    }

    /// Number of times.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Greatest time, exact.
    pub(crate) fn greatest(&self) -> Option<i64> {
        self.greatest
    }
}

/// Lower end of the bin that contains a time.
fn bin(us: i64) -> i64 {
    let us = us.clamp(-LIMIT_US, LIMIT_US);
    let width = if us.abs() < FINE_LIMIT_US { FINE_US } else { COARSE_US };
    us.div_euclid(width) * width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_times() {
        let mut times = Distribution::default();
        assert_eq!((times.quantile(0.5), times.greatest()), (None, None));
        (1..=1000).for_each(|index| times.add(index * 100));
        assert_eq!(times.quantile(0.5), Some(50_000));
        assert_eq!(times.quantile(0.99), Some(99_000));
        assert_eq!((times.quantile(1.0), times.quantile(0.0)), (Some(100_000), Some(100)));
        assert_eq!(times.greatest(), Some(100_000));
    }

    #[test]
    fn times_are_compared_with_a_floor() {
        let (mut before, mut after) = (Distribution::default(), Distribution::default());
        [-9_000, -5_000, -4_000, 7_000].into_iter().for_each(|us| before.add(us));
        after.add_later_than(&before, -5_000);
        assert_eq!(
            (after.quantile(0.5), after.quantile(0.75), after.greatest()),
            (Some(0), Some(1_000), Some(12_000))
        );
        assert_eq!(after.count, 4);
    }

    #[test]
    fn extreme_times_take_few_bins() {
        let mut times = Distribution::default();
        for exponent in 0..63 {
            times.add(1 << exponent);
            times.add(-(1 << exponent));
        }
        assert!(times.bins.len() < 100);
        assert_eq!(times.greatest(), Some(1 << 62));
    }
}
