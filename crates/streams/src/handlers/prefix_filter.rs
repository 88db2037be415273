//! Filter by the first bytes of records.

use super::filter::FilterCounts;
use crate::handler::{Common, HandlerError, MAX_PEEK_BYTES, Peek, Verdict};

/// Passes records that begin with certain bytes; the other bytes need not be read. Reports `passed` and
/// `dropped` records. A control message replaces these bytes, for records from then on; the answer is the
/// previous bytes.
#[derive(Debug)]
pub struct PrefixFilter {
    prefix: Vec<u8>,
    counts: FilterCounts,
}

impl PrefixFilter {
    /// A filter for records that begin with these bytes, at most [`MAX_PEEK_BYTES`] of them.
    pub fn new(prefix: impl Into<Vec<u8>>) -> PrefixFilter {
        PrefixFilter { prefix: prefix.into(), counts: FilterCounts::default() }
    }
}

impl Common for PrefixFilter {
    fn name(&self) -> &'static str {
        "begins"
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        self.counts.report()
    }

    fn control(&mut self, message: &[u8]) -> Result<Vec<u8>, HandlerError> {
        if !(1..=MAX_PEEK_BYTES).contains(&message.len()) {
            let words = format!("{} bytes: expected 1 to {MAX_PEEK_BYTES}", message.len());
            return Err(HandlerError::Refused(words));
        }
        Ok(std::mem::replace(&mut self.prefix, message.to_vec()))
    }
}

impl Peek for PrefixFilter {
    fn length(&self) -> usize {
        self.prefix.len()
    }

    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError> {
        Ok(self.counts.verdict(head.starts_with(&self.prefix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_pass_by_their_beginning_and_are_counted() {
        let mut filter = PrefixFilter::new("GET ");
        assert_eq!(filter.length(), 4);
        let verdicts = [&b"GET "[..], b"PUT ", b"GE"].map(|head| filter.peek(head).unwrap());
        assert_eq!(verdicts, [Verdict::Pass, Verdict::Drop, Verdict::Drop]);
        assert_eq!(filter.report(), [("passed", 1), ("dropped", 2)]);
        assert_eq!(filter.control(b"PUT").unwrap(), b"GET ");
        assert_eq!(filter.peek(b"PUT"), Ok(Verdict::Pass));
        assert!(matches!(filter.control(b""), Err(HandlerError::Refused(_))));
    }
}
