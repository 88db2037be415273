//! Search for the largest number that passes: doubling from the first number until one fails, halving until
//! one passes, then bisection between the two.

/// Precision: the search ends when the distance between the largest passed and the smallest failed number is
/// below this share of the former.
const PRECISION: f64 = 0.1;

/// Search for the largest number of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    first: usize,
    most: usize,
    passed: Option<usize>,
    failed: Option<usize>,
}

impl Search {
    /// Search from 1 to `most` that begins with `first`.
    pub(crate) fn new(first: usize, most: usize) -> Search {
        let most = most.max(1);
        Search { first: first.clamp(1, most), most, passed: None, failed: None }
    }

    /// Number to try next; `None` when the search is over.
    pub(crate) fn next(&self) -> Option<usize> {
        match (self.passed, self.failed) {
            (None, None) => Some(self.first),
            (Some(passed), None) => (passed < self.most).then(|| (passed * 2).min(self.most)),
            (None, Some(failed)) => (failed > 1).then_some(failed / 2),
            (Some(passed), Some(failed)) => between(passed, failed),
        }
    }

    /// Records the result of a number.
    pub(crate) fn record(&mut self, number: usize, passes: bool) {
        if passes {
            self.passed = self.passed.max(Some(number));
        } else {
            self.failed = Some(self.failed.map_or(number, |failed| failed.min(number)));
        }
        // A number that passes above a failed number shows that the failure had another cause.
        if self.passed >= self.failed {
            self.failed = None;
        }
    }

    /// Largest number that passed.
    pub(crate) fn largest(&self) -> Option<usize> {
        self.passed
    }

    /// Smallest failed number above it.
    pub(crate) fn failed(&self) -> Option<usize> {
        self.failed
    }

    /// Approximate share of the work done.
    pub(crate) fn progress(&self) -> f64 {
        match (self.passed, self.failed) {
            (None, None) => 0.0,
            (Some(passed), None) => 0.6 * (passed as f64).log2() / (self.most as f64).log2().max(1.0),
            (None, Some(_)) => 0.3,
            (Some(passed), Some(failed)) => {
                let width = failed as f64 / passed as f64 - 1.0;
                (1.0 - 0.4 * width.min(1.0)).max(0.6)
            }
        }
    }
}

/// Number between two numbers: their geometric mean, rounded to two digits if that still lies between them.
/// `None` if the two are close enough.
fn between(passed: usize, failed: usize) -> Option<usize> {
    if failed <= passed + 1 || (failed - passed) as f64 <= passed as f64 * PRECISION {
        return None;
    }
    let mean = (passed as f64 * failed as f64).sqrt().round() as usize;
    let unit = 10_usize.pow(mean.max(1).ilog10().saturating_sub(1));
    let round = (mean + unit / 2) / unit * unit;
    let choice = if passed < round && round < failed { round } else { mean };
    Some(choice.clamp(passed + 1, failed - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers tried, and the search after its end.
    fn run(mut search: Search, limit: usize) -> (Vec<usize>, Search) {
        let mut tried = Vec::new();
        while let Some(number) = search.next() {
            assert!(tried.len() < 200, "{tried:?}");
            tried.push(number);
            search.record(number, number <= limit);
        }
        (tried, search)
    }

    #[test]
    fn it_doubles_and_then_bisects() {
        let (tried, search) = run(Search::new(200, 65_000), 3_000);
        assert_eq!(tried, [200, 400, 800, 1_600, 3_200, 2_300, 2_700, 2_900, 3_000]);
        assert_eq!((search.largest(), search.failed()), (Some(3_000), Some(3_200)));
        assert_eq!(run(Search::new(200, 500), 3_000).0, [200, 400, 500]);
        assert_eq!(run(Search::new(8, 100), 0).0, [8, 4, 2, 1]);
    }

    proptest! {
        /// Promise: `assess clients` finds the largest number of timely clients to within a tenth.
        #[test]
        fn the_limit_is_bracketed(first in 1_usize..5_000, most in 1_usize..70_000, limit in 0_usize..80_000) {
            let (tried, search) = run(Search::new(first, most), limit);
            prop_assert!(tried.len() <= 40 && tried.iter().all(|number| (1..=most).contains(number)));
            let mut once = tried.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), tried.len(), "no number is tried twice");
            match (search.largest(), search.failed()) {
                (Some(passed), Some(failed)) => {
                    prop_assert!(passed <= limit && limit < failed);
                    prop_assert!(failed - passed <= (passed / 10).max(1));
                }
                (Some(passed), None) => prop_assert!(passed == most && most <= limit),
                (None, Some(failed)) => prop_assert!(failed == 1 && limit == 0),
                (None, None) => prop_assert!(false, "nothing was tried"),
            }
        }

        #[test]
        fn progress_is_a_share(first in 1_usize..5_000, most in 1_usize..70_000, limit in 0_usize..80_000) {
            let mut search = Search::new(first, most);
            while let Some(number) = search.next() {
                prop_assert!((0.0..=1.0).contains(&search.progress()), "{:?}", search);
                search.record(number, number <= limit);
            }
        }
    }
}
