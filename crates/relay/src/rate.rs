//! Rates, as words.

use std::str::FromStr;

use bytesize::ByteSize;
use wirepath_engine::Rate;

use crate::spec::SpecError;

/// A rate: `100Mbit/s` (thousands: `bit/s`, `kbit/s`, `Mbit/s`, `Gbit/s`) or in bytes, `12.5MB/s`, `12MiB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSpec {
    bytes_per_second: u64,
}

/// What a rate without a burst lets through at once: this part of what it lets through in a second.
const USUAL_BURST: u64 = 10;

/// More than any machine moves.
const MOST_BYTES_PER_SECOND: u64 = 1 << 40;

impl RateSpec {
    /// A limit for streams, which lets through `burst_bytes` at once; without one a tenth of a second's worth.
    pub fn rate(self, burst_bytes: Option<u64>) -> Rate {
        let burst = burst_bytes.unwrap_or(self.bytes_per_second / USUAL_BURST);
        Rate { per_second: self.bytes_per_second, burst: burst.max(1) }
    }
}

impl FromStr for RateSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<RateSpec, SpecError> {
        let parsed = text.strip_suffix("/s").and_then(|quantity| bits(quantity).or_else(|| bytes(quantity)));
        let parsed = parsed.filter(|bytes| (1..=MOST_BYTES_PER_SECOND).contains(bytes));
        let words = || {
            let most = ByteSize(MOST_BYTES_PER_SECOND);
            format!(
                "{text} is no rate; a rate is for instance 100Mbit/s, 12.5MB/s or 12MiB/s, up to {most}/s: in bit, kbit, Mbit, Gbit or B, kB, MB, GB, KiB, MiB, GiB"
            )
        };
        parsed.map(|bytes_per_second| RateSpec { bytes_per_second }).ok_or_else(|| SpecError(words()))
    }
}

/// Bytes of so many bits.
fn bits(quantity: &str) -> Option<u64> {
    let quantity = quantity.strip_suffix("bit")?.trim_end();
    let (number, unit) = match quantity.chars().next_back()?.to_ascii_lowercase() {
        'k' => (&quantity[..quantity.len() - 1], 1e3),
        'm' => (&quantity[..quantity.len() - 1], 1e6),
        'g' => (&quantity[..quantity.len() - 1], 1e9),
        _ => (quantity, 1.0),
    };
    let number: f64 = number.trim_end().parse().ok()?;
    // What is no number, negative or too great becomes 0 or the greatest number, which are no rates.
    Some((number * unit / 8.0) as u64)
}

/// With a capital B: nobody can tell whether `Mb` is meant as bits or bytes.
fn bytes(quantity: &str) -> Option<u64> {
    quantity.ends_with('B').then(|| quantity.parse::<ByteSize>().ok())?.map(|size| size.as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_second(text: &str) -> u64 {
        text.parse::<RateSpec>().unwrap().rate(None).per_second
    }

    #[test]
    fn rates_as_people_write_them() {
        assert_eq!(per_second("100Mbit/s"), 12_500_000);
        assert_eq!(per_second("1.5 kbit/s"), 187);
        assert_eq!(per_second("2gbit/s"), 250_000_000);
        assert_eq!(per_second("800bit/s"), 100);
        assert_eq!(per_second("12.5MB/s"), 12_500_000);
        assert_eq!(per_second("1MiB/s"), 1 << 20);
        assert_eq!(per_second("500B/s"), 500);
    }

    #[test]
    fn what_is_no_rate_is_said_with_examples() {
        let wrong =
            ["", "/s", "100", "100Mbit", "100Mb/s", "0MB/s", "1bit/s", "-1MB/s", "-5bit/s", "NaNbit/s"];
        for text in wrong.into_iter().chain(["infbit/s", "1e30bit/s", "5TiB/s", "fastbit/s", "é/s", "ébit/s"])
        {
            let error = text.parse::<RateSpec>().unwrap_err().to_string();
            assert!(error.starts_with(text) && error.contains("for instance 100Mbit/s"), "{error}");
        }
    }

    #[test]
    fn a_burst_is_a_tenth_of_a_second_unless_it_is_said() {
        let rate: RateSpec = "8Mbit/s".parse().unwrap();
        assert_eq!(rate.rate(None).burst, 100_000);
        assert_eq!(rate.rate(Some(5)).burst, 5);
    }
}
