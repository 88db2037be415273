//! Records that begin with certain bytes.

use crate::handler::{Common, HandlerError, Peek, Verdict};

/// Passes records that begin with certain bytes; the others need not be read. Reports `passed` and `dropped`
/// records.
#[derive(Debug)]
pub struct Begins {
    with: Vec<u8>,
    passed: u64,
    dropped: u64,
}

impl Begins {
    /// Records that begin with these bytes, of which there are at most
    /// [`MOST_PEEKED`](crate::MOST_PEEKED).
    pub fn with(bytes: impl Into<Vec<u8>>) -> Begins {
        Begins { with: bytes.into(), passed: 0, dropped: 0 }
    }
}

impl Common for Begins {
    fn name(&self) -> &'static str {
        "begins"
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![("passed", self.passed), ("dropped", self.dropped)]
    }
}

impl Peek for Begins {
    fn length(&self) -> usize {
        self.with.len()
    }

    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError> {
        if head.starts_with(&self.with) {
            self.passed += 1;
            return Ok(Verdict::Pass);
        }
        self.dropped += 1;
        Ok(Verdict::Drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_pass_by_their_beginning_and_are_counted() {
        let mut begins = Begins::with("GET ");
        assert_eq!(begins.length(), 4);
        let verdicts = [&b"GET "[..], b"PUT ", b"GE"].map(|head| begins.peek(head).unwrap());
        assert_eq!(verdicts, [Verdict::Pass, Verdict::Drop, Verdict::Drop]);
        assert_eq!(begins.report(), [("passed", 1), ("dropped", 2)]);
    }
}
