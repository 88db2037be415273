//! How much goes by, and how fast.

use crate::clock::now_us;
use crate::handler::{Common, HandlerError, Read, Verdict};
use crate::pattern::Lately;
use crate::record::Piece;

/// Reports `bytes`, `records`, and `bytes_per_second`: what went by lately, of which what is a second old counts a third (1/e).
#[derive(Debug, Default)]
pub struct Meter {
    bytes: u64,
    records: u64,
    lately: Lately,
}

impl Common for Meter {
    fn name(&self) -> &'static str {
        "meter"
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        let rate = self.lately.bytes_per_second(now_us());
        vec![("bytes", self.bytes), ("records", self.records), ("bytes_per_second", rate as u64)]
    }
}

impl Read for Meter {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        self.bytes += piece.bytes.len() as u64;
        self.records += u64::from(piece.begins);
        self.lately.add(piece.bytes.len(), now_us());
        Ok(Verdict::Pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_by_is_counted() {
        let mut meter = Meter::default();
        for (bytes, begins) in [(&b"abc"[..], true), (b"de", false), (b"f", true)] {
            assert_eq!(meter.read(Piece { bytes, begins, ends: true }), Ok(Verdict::Pass));
        }
        let report = meter.report();
        assert_eq!(report[..2], [("bytes", 6), ("records", 2)]);
        assert!(report[2].1 <= 6);
    }
}
