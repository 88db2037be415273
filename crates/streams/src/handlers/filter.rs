//! Filter of whole records by a test.

use crate::handler::{Common, HandlerError, Reach, Read, Verdict};
use crate::record::Piece;

/// Counts of a filter's decisions.
#[derive(Debug, Default)]
pub(super) struct FilterCounts {
    passed: u64,
    dropped: u64,
}

impl FilterCounts {
    /// Counts the decision on a record.
    pub(super) fn verdict(&mut self, passes: bool) -> Verdict {
        if passes {
            self.passed += 1;
            Verdict::Pass
        } else {
            self.dropped += 1;
            Verdict::Drop
        }
    }

    pub(super) fn report(&self) -> Vec<(&'static str, u64)> {
        vec![("passed", self.passed), ("dropped", self.dropped)]
    }
}

/// Passes whole records that pass a test. Reports `passed` and `dropped` records.
pub struct Filter<T> {
    name: &'static str,
    test: T,
    limit: usize,
    counts: FilterCounts,
}

impl<T: FnMut(&[u8]) -> bool + Send> Filter<T> {
    /// A filter of records of at most `limit` bytes; a longer record is refused.
    pub fn new(limit: usize, test: T) -> Filter<T> {
        Filter { name: "filter", test, limit, counts: FilterCounts::default() }
    }

    /// Sets the name for reports; `filter` by default.
    #[must_use]
    pub fn named(self, name: &'static str) -> Filter<T> {
        Filter { name, ..self }
    }
}

impl<T: Send> Common for Filter<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reach(&self) -> Reach {
        Reach::Records { limit: self.limit }
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        self.counts.report()
    }
}

impl<T: FnMut(&[u8]) -> bool + Send> Read for Filter<T> {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        Ok(self.counts.verdict((self.test)(piece.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_the_test_is_dropped_and_counted() {
        let mut filter = Filter::new(10, |record: &[u8]| record.starts_with(b"keep"));
        assert_eq!(filter.name(), "filter");
        assert_eq!(filter.read(Piece::whole(b"keep me")), Ok(Verdict::Pass));
        assert_eq!(filter.read(Piece::whole(b"lose me")), Ok(Verdict::Drop));
        assert_eq!(filter.report(), [("passed", 1), ("dropped", 1)]);
        assert_eq!(filter.reach(), Reach::Records { limit: 10 });
        assert_eq!(filter.named("keep").name(), "keep");
    }
}
