//! Confidence interval of a median, by the sign test: no assumption about the distribution of the values.

use serde::{Deserialize, Serialize};

/// Confidence of the intervals. An experiment that looks at its runs up to three times before it decides
/// keeps at least 97 % over all looks.
pub const CONFIDENCE: f64 = 0.99;

/// Median of a ratio measured round by round, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MedianRatio {
    /// Median of the rounds' ratios.
    pub median: f64,
    /// Lower bound at [`CONFIDENCE`]; null with too few rounds for an interval (fewer than 8).
    pub lower: Option<f64>,
    /// Upper bound, as `lower`.
    pub upper: Option<f64>,
    /// Number of rounds.
    pub rounds: usize,
}

impl MedianRatio {
    /// Ratios of paired values: one of each list in a round. A surplus value of one list, of an interrupted
    /// round, is ignored, as is a round without processor time. `None` without rounds.
    pub fn of_pairs(over: &[f64], under: &[f64]) -> Option<MedianRatio> {
        let ratios = over.iter().zip(under).map(|(over, under)| over / under);
        MedianRatio::of(ratios.filter(|ratio| ratio.is_finite()))
    }

    fn of(ratios: impl IntoIterator<Item = f64>) -> Option<MedianRatio> {
        let mut ratios: Vec<f64> = ratios.into_iter().collect();
        ratios.sort_by(f64::total_cmp);
        let rounds = ratios.len();
        let median = (ratios.get(rounds.checked_sub(1)? / 2)? + ratios[rounds / 2]) / 2.0;
        let outside = values_outside(rounds, CONFIDENCE);
        let bounds = outside.map(|outside| (ratios[outside], ratios[rounds - 1 - outside]));
        Some(MedianRatio {
            median,
            lower: bounds.map(|(lower, _)| lower),
            upper: bounds.map(|(_, upper)| upper),
            rounds,
        })
    }

    /// Returns whether the whole interval is below `limit`.
    pub fn is_below(&self, limit: f64) -> bool {
        self.upper.is_some_and(|upper| upper < limit)
    }

    /// Returns whether the whole interval is above `limit`.
    pub fn is_above(&self, limit: f64) -> bool {
        self.lower.is_some_and(|lower| lower > limit)
    }

    /// Returns whether the interval, if there is one, has `limit` within it.
    pub fn is_undecided(&self, limit: f64) -> bool {
        !self.is_below(limit) && !self.is_above(limit)
    }
}

/// Number of values below the interval, and above it, so that the interval between the next ones has the
/// median with this confidence. `None` if all values together are too few.
///
/// The number of values below the true median is binomial with probability 1/2, so the interval from the
/// value `outside + 1` to the value `n - outside` misses it with probability `2 * P(X <= outside)`.
fn values_outside(values: usize, confidence: f64) -> Option<usize> {
    let n = values as f64;
    let mut logarithm = -n * std::f64::consts::LN_2; // of P(X = 0); the probability itself may be too small
    let mut tail = 0.0;
    let mut outside = None;
    for below in 0..values.div_ceil(2) {
        tail += logarithm.exp();
        if 2.0 * tail > 1.0 - confidence {
            break;
        }
        outside = Some(below);
        logarithm += ((n - below as f64) / (below as f64 + 1.0)).ln();
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Table values of the sign test at 95 % and 99 % (Dixon and Mood 1946: r + 1 is the first value outside).
    #[test]
    fn the_number_of_values_outside_is_that_of_the_tables() {
        for (values, at_95, at_99) in [
            (0, None, None),
            (1, None, None),
            (5, None, None),
            (6, Some(0), None),
            (7, Some(0), None),
            (8, Some(0), Some(0)),
            (10, Some(1), Some(0)),
            (12, Some(2), Some(1)),
            (20, Some(5), Some(3)),
            (40, Some(13), Some(11)),
            (100, Some(39), Some(36)),
        ] {
            let outside = [values_outside(values, 0.95), values_outside(values, 0.99)];
            assert_eq!(outside, [at_95, at_99], "{values}");
        }
        // 0.5^4000 is no number of a double; the interval is that of the normal approximation, 2.576 deviations.
        let outside = values_outside(4000, 0.99).unwrap() as f64;
        assert!((outside - (2000.0 - 2.576 * 1000.0_f64.sqrt())).abs() < 2.0, "{outside}");
    }

    /// Promise: The size from which `loan` lends is found by comparing lent and copied sends in pairs.
    #[test]
    fn pairs_cancel_what_both_have_in_common() {
        let load = [1.0, 3.0, 1.5, 9.0, 1.0, 1.1, 2.0, 1.3];
        let (copied, lent) = (load.map(|load| 2.0 * load), load.map(|load| 1.9 * load));
        let ratio = MedianRatio::of_pairs(&lent, &copied).unwrap();
        assert!(ratio.is_below(1.0) && (ratio.median - 0.95).abs() < 1e-9, "{ratio:?}");
        let few = MedianRatio::of_pairs(&lent[..7], &copied).unwrap();
        assert_eq!((few.lower, few.rounds, few.is_undecided(1.0)), (None, 7, true));
        assert_eq!(MedianRatio::of_pairs(&lent, &[]), None);
        assert_eq!(MedianRatio::of_pairs(&[1.0, 2.0], &[0.0, 1.0]).unwrap().rounds, 1);
    }

    /// Uniform numbers from 0 to 1 (splitmix64).
    fn uniform(seed: &mut u64) -> f64 {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Promise: `assess loan` decides by paired rounds: its intervals miss the true ratio in at most 1 % of cases.
    #[test]
    fn the_interval_has_the_true_median_as_often_as_it_says() {
        let mut seed = 1;
        // Binomial probabilities of missing it.
        for (values, expected) in [(8, 2.0 / 256.0), (10, 2.0 / 1024.0), (12, 26.0 / 4096.0), (40, 0.006_427)]
        {
            // A distribution with a long tail, whose median is 1.
            let mut sample = || (0..values).map(|_| uniform(&mut seed).recip() / 2.0).collect::<Vec<_>>();
            let of = |sample: Vec<f64>| MedianRatio::of(sample).unwrap();
            const SAMPLES: u32 = 20_000;
            let missed = (0..SAMPLES).map(|_| of(sample())).filter(|ratio| !ratio.is_undecided(1.0)).count();
            let share = missed as f64 / f64::from(SAMPLES);
            // Five deviations of a share of so many samples.
            let deviation = (expected / f64::from(SAMPLES)).sqrt();
            assert!((share - expected).abs() < 5.0 * deviation, "{values}: {share}, expected {expected}");
        }
    }

    proptest! {
        #[test]
        fn the_interval_is_made_of_the_values_in_any_order(mut values in prop::collection::vec(0.1..10.0, 1..60)) {
            let ratio = MedianRatio::of(values.iter().copied()).unwrap();
            prop_assert_eq!(ratio.rounds, values.len());
            prop_assert_eq!(ratio.lower.is_some(), values.len() >= 8);
            values.reverse();
            prop_assert_eq!(MedianRatio::of(values.iter().copied()), Some(ratio));
            if let Some((lower, upper)) = ratio.lower.zip(ratio.upper) {
                prop_assert!(lower <= ratio.median && ratio.median <= upper);
                prop_assert!(values.contains(&lower) && values.contains(&upper));
                prop_assert!(!(ratio.is_below(1.0) && ratio.is_above(1.0)));
                let outside = |beyond: &dyn Fn(&f64) -> bool| values.iter().filter(|value| beyond(value)).count();
                prop_assert!(outside(&|value| *value < lower) <= values.len() / 2);
                // Lending over copying and copying over lending have the same verdict.
                let turned = MedianRatio::of(values.iter().map(|value| value.recip())).unwrap();
                prop_assert_eq!(turned.lower, Some(upper.recip()));
                prop_assert_eq!(turned.upper, Some(lower.recip()));
                // Scaled values scale the interval.
                let scaled = MedianRatio::of(values.iter().map(|value| value * 4.0)).unwrap();
                prop_assert_eq!((scaled.lower, scaled.upper), (Some(lower * 4.0), Some(upper * 4.0)));
            }
        }

        #[test]
        fn more_rounds_leave_more_values_outside(values in 0_usize..500) {
            let (fewer, more) = (values_outside(values, CONFIDENCE), values_outside(values + 1, CONFIDENCE));
            prop_assert!(fewer <= more && more <= fewer.map_or(Some(0), |outside| Some(outside + 1)));
            prop_assert!(values_outside(values, 0.999) <= fewer && fewer <= values_outside(values, 0.95));
        }
    }
}
