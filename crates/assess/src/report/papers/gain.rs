//! Gains measured on this machine, compared with claims of the papers.

use wirepath_report::{Cell, Kind};

use crate::confidence::MedianRatio;
use crate::statistics::Summary;
use crate::verdict::Significance;

/// Gain on this machine.
pub(super) struct Gain {
    /// Gain as a share.
    pub(super) share: f64,
    /// Significance of the difference.
    significance: Significance,
    /// True if one of the two figures is noisy.
    pub(super) noisy: bool,
}

/// Gains below this share count as no difference, even without noise.
const NO_GAIN: f64 = 0.02;

impl Gain {
    /// Gain of one figure over another.
    pub(super) fn of(share: f64, one: &Summary, other: &Summary) -> Gain {
        Gain { share, significance: Significance::of(one, other), noisy: one.is_noisy() || other.is_noisy() }
    }

    /// Gain in throughput where the processor limits it, by a paired ratio of processor times: significant if the
    /// interval of the ratio does not contain 1.
    pub(super) fn of_pairs(ratio: MedianRatio) -> Gain {
        let significance = match ratio.lower {
            None => Significance::TooFewRuns,
            Some(_) if ratio.is_undecided(1.0) => Significance::TooNoisy,
            Some(_) => Significance::Significant,
        };
        Gain { share: 1.0 / ratio.median - 1.0, significance, noisy: false }
    }

    /// Verdict on a claimed gain.
    pub(super) fn verdict(&self, claimed: f64) -> Cell {
        // Two equal figures without noise leave no doubt.
        let same = self.share.abs() < NO_GAIN && !self.noisy && self.significance != Significance::TooFewRuns;
        match (self.significance.doubt(), self.share) {
            _ if same => Cell::plain("no difference"),
            (Some(doubt), _) => Cell::new(doubt, Kind::Noisy),
            (None, share) if share >= claimed => Cell::new("holds", Kind::Good),
            (None, share) if share > 0.0 => Cell::plain("holds, by less"),
            (None, _) => Cell::new("turned round", Kind::Bad),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The report calls no figure better if the difference is within the noise of the runs.
    #[test]
    fn no_claim_holds_or_turns_round_within_the_noise() {
        let verdict = |share: f64, spread: f64, runs: usize| {
            let summary = |median: f64| {
                Summary::of(
                    [1.0 - spread, 1.0, 1.0 + spread].map(|factor| factor * median)[..runs].iter().copied(),
                )
                .unwrap()
            };
            Gain::of(share, &summary(1.0 - share), &summary(1.0)).verdict(0.25).text
        };
        assert_eq!(verdict(0.3, 0.01, 3), "holds");
        assert_eq!(verdict(0.2, 0.01, 3), "holds, by less");
        assert_eq!(verdict(-0.3, 0.01, 3), "turned round");
        assert_eq!(verdict(0.03, 0.2, 3), "too noisy to say");
        assert_eq!(verdict(-0.03, 0.2, 3), "too noisy to say");
        assert_eq!(verdict(0.0, 0.3, 3), "too noisy to say");
        assert_eq!(verdict(0.01, 0.001, 3), "no difference");
        assert_eq!(verdict(0.3, 0.01, 2), "too few runs to say");
    }

    #[test]
    fn a_paired_gain_is_judged_by_its_interval() {
        let verdict = |median: f64, bounds: Option<(f64, f64)>| {
            let (lower, upper) = (bounds.map(|bounds| bounds.0), bounds.map(|bounds| bounds.1));
            let gain = Gain::of_pairs(MedianRatio { median, lower, upper, rounds: 8 });
            (gain.share, gain.verdict(0.25).text)
        };
        assert_eq!(verdict(0.5, Some((0.4, 0.6))), (1.0, "holds".to_owned()));
        assert_eq!(verdict(0.8, Some((0.7, 0.9))).1, "holds");
        assert_eq!(verdict(0.9, Some((0.8, 0.95))).1, "holds, by less");
        assert_eq!(verdict(0.9, Some((0.8, 1.1))).1, "too noisy to say");
        assert_eq!(verdict(1.2, Some((1.1, 1.3))).1, "turned round");
        assert_eq!(verdict(0.5, None).1, "too few runs to say");
    }
}
