//! Median, spread and outliers of repeated runs.

/// Summary of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Middle run, or the mean of the two middle runs.
    pub median: f64,
    /// Smallest run.
    pub least: f64,
    /// Largest run.
    pub greatest: f64,
    /// Interquartile range as a share of the median: half of the runs are within it. `None` with fewer than
    /// [`FEWEST_RUNS`] runs.
    pub spread: Option<f64>,
    /// Runs more than 1.5 interquartile ranges outside the quartiles (Tukey's fences).
    pub outliers: usize,
    /// Number of runs.
    pub runs: usize,
}

/// Spread, as a share of the median, above which a figure is unreliable.
pub const NOISY_SPREAD: f64 = 0.10;

/// Minimum number of runs for a spread.
pub const FEWEST_RUNS: usize = 3;

impl Summary {
    /// Summary of values; `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        let median = quantile(&values, 0.5);
        let (lower, upper) = (quantile(&values, 0.25), quantile(&values, 0.75));
        let fence = 1.5 * (upper - lower);
        let outlies = |value: &&f64| **value < lower - fence || **value > upper + fence;
        Some(Summary {
            median,
            least,
            greatest,
            spread: (values.len() >= FEWEST_RUNS).then(|| match median {
                0.0 => 0.0,
                median => (upper - lower) / median,
            }),
            outliers: values.iter().filter(outlies).count(),
            runs: values.len(),
        })
    }

    /// Returns whether the spread is too wide to quote the median alone. False if there are too few runs for
    /// a spread: see [`Summary::spread`].
    pub fn is_noisy(&self) -> bool {
        self.spread.is_some_and(|spread| spread > NOISY_SPREAD)
    }

    /// Range between the extremes, as a share of the median.
    pub fn range(&self) -> f64 {
        (self.greatest - self.least) / self.median
    }

    /// Interquartile range in the unit of the runs; `None` if it is not known.
    pub fn distance(&self) -> Option<f64> {
        self.spread.map(|spread| (spread * self.median).abs())
    }
}

/// Quantile of sorted values, interpolated.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_even_and_odd_numbers() {
        assert_eq!(Summary::of([3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Summary::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert!(Summary::of([]).is_none());
    }

    #[test]
    fn one_wild_run_is_an_outlier_and_not_noise() {
        let summary = Summary::of([1.0, 1.01, 1.02, 1.0, 1.01, 9.0]).unwrap();
        assert_eq!((summary.outliers, summary.is_noisy()), (1, false));
        assert!(Summary::of([1.0, 1.5, 2.0, 2.5]).unwrap().is_noisy());
    }

    /// Promise: The report calls no figure better if the difference is within the noise of the runs.
    #[test]
    fn of_one_run_and_of_two_the_spread_is_not_known() {
        for runs in [&[1.0][..], &[1.0, 9.0]] {
            let summary = Summary::of(runs.iter().copied()).unwrap();
            assert_eq!((summary.spread, summary.distance(), summary.is_noisy()), (None, None, false));
        }
        let three = Summary::of([2.0, 2.0, 3.0]).unwrap();
        assert_eq!((three.spread, three.distance()), (Some(0.25), Some(0.5)));
    }
}
