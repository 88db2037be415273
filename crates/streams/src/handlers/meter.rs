//! Volume and rate.

use crate::handler::{Common, HandlerError, Read, Verdict};
use crate::record::Piece;
use crate::throughput::Throughput;
use wirepath_engine::now_us;

/// Reports `bytes`, `records`, and `bytes_per_second`: the mean rate since the first byte, in which a byte of
/// a second ago has the weight 1/e. A short run thus reports its overall rate, a long run the rate of about
/// its last second; the rate falls when no bytes arrive.
#[derive(Debug, Default)]
pub struct Meter {
    bytes: u64,
    records: u64,
    throughput: Throughput,
    first_us: Option<u64>,
}

/// Shortest time that a rate is computed over.
const SHORTEST_US: u64 = 1000;

impl Meter {
    fn add(&mut self, bytes: usize, now_us: u64) {
        self.first_us.get_or_insert(now_us);
        self.bytes += bytes as u64;
        self.throughput.add(bytes, now_us);
    }

    fn bytes_per_second(&self, now_us: u64) -> u64 {
        let Some(first_us) = self.first_us else { return 0 };
        let time_s = now_us.saturating_sub(first_us).max(SHORTEST_US) as f64 / 1e6;
        // Sum of the weights of the time since the first byte; an infinite time has the sum 1.
        let weight = 1.0 - (-time_s).exp();
        (self.throughput.bytes_per_second(now_us) / weight) as u64
    }
}

impl Common for Meter {
    fn name(&self) -> &'static str {
        "meter"
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        let rate = self.bytes_per_second(now_us());
        vec![("bytes", self.bytes), ("records", self.records), ("bytes_per_second", rate)]
    }
}

impl Read for Meter {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        self.records += u64::from(piece.begins);
        self.add(piece.bytes.len(), now_us());
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
            assert_eq!(meter.read(Piece::part(bytes, begins, true)), Ok(Verdict::Pass));
        }
        let report = meter.report();
        assert_eq!(report[..2], [("bytes", 6), ("records", 2)]);
        assert!(report[2].1 <= 6003, "{report:?}: six bytes are at most those of the shortest time");
    }

    /// Promise: `meter` reports a rate over the elapsed time, also for a short run.
    #[test]
    fn a_rate_is_over_the_time_that_there_was() {
        /// Rate after so many pieces of 10,000 bytes, one each millisecond, this long after the last piece.
        fn rate(pieces: u64, after_us: u64) -> u64 {
            let mut meter = Meter::default();
            (1..=pieces).for_each(|ms| meter.add(10_000, 7_000_000 + ms * 1000));
            meter.bytes_per_second(7_000_000 + pieces * 1000 + after_us)
        }
        let about = |rate: u64, expected: u64| rate.abs_diff(expected) < expected / 100;
        assert_eq!(Meter::default().bytes_per_second(5), 0);
        for pieces in [1, 12, 1000, 60_000] {
            let rate = rate(pieces, 1000);
            assert!(about(rate, 10_000_000), "{pieces} pieces: {rate}");
        }
        let at_once = rate(1, 0);
        assert!(about(at_once, 10_000_000), "{at_once}");
        let paused = rate(60_000, 1_000_000);
        assert!(about(paused, 3_678_794), "{paused}");
    }
}
