//! Median and spread.

use serde::Serialize;

/// Several runs of the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// The run in the middle, or between the two there.
    pub(crate) median: f64,
    /// Least run.
    pub(crate) least: f64,
    /// Greatest run.
    pub(crate) greatest: f64,
    /// Number of runs.
    pub(crate) runs: usize,
}

impl Summary {
    /// Of these values; there must be one.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        let runs = values.len();
        let median = (values[(runs - 1) / 2] + values[runs / 2]) / 2.0;
        Some(Self { median, least, greatest, runs })
    }

    /// Distance of the extremes, as a share of the median.
    pub(crate) fn spread(&self) -> f64 {
        (self.greatest - self.least) / self.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_even_and_odd_numbers() {
        assert_eq!(Summary::of([3.0, 1.0, 2.0]).unwrap().median, 2.0);
        let summary = Summary::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((summary.median, summary.least, summary.greatest, summary.runs), (2.5, 1.0, 4.0, 4));
        assert_eq!(summary.spread(), 1.2);
        assert!(Summary::of([]).is_none());
    }
}
