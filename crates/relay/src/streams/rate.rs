//! Rates, as strings.

use std::str::FromStr;

use bytesize::ByteSize;
use wirepath_engine::Rate;

use super::spec::SpecError;

/// Rate in bits, `100Mbit/s` or `100Mb/s`, or in bytes, `12.5MB/s` or `12MiB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSpec {
    bytes_per_second: u64,
}

/// Default number of bursts per second.
const DEFAULT_BURSTS: u64 = 10;

/// Maximum rate, greater than the rate of any machine.
const MAX_BYTES_PER_SECOND: u64 = 1 << 40;

impl RateSpec {
    /// Rate limit with a burst of `burst_bytes`; the default burst is a tenth of a second of the rate.
    pub fn rate(self, burst_bytes: Option<u64>) -> Rate {
        let burst = burst_bytes.unwrap_or(self.bytes_per_second / DEFAULT_BURSTS);
        Rate { per_second: self.bytes_per_second, burst: burst.max(1) }
    }
}

impl FromStr for RateSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<RateSpec, SpecError> {
        let parsed = text.strip_suffix("/s").and_then(|quantity| bits(quantity).or_else(|| bytes(quantity)));
        let parsed = parsed.filter(|bytes| (1..=MAX_BYTES_PER_SECOND).contains(bytes));
        let words = || {
            let most = ByteSize(MAX_BYTES_PER_SECOND);
            format!(
                "invalid rate {text}: expected bits such as 100Mbit/s (or Mb/s), or bytes such as 12.5MB/s or 12MiB/s, \
                 up to {most}/s"
            )
        };
        parsed.map(|bytes_per_second| RateSpec { bytes_per_second }).ok_or_else(|| SpecError(words()))
    }
}

/// Number of bytes of a quantity in bits, with the unit `bit` or `b`.
fn bits(quantity: &str) -> Option<u64> {
    let quantity = quantity.strip_suffix("bit").or_else(|| quantity.strip_suffix('b'))?.trim_end();
    let (number, unit) = match quantity.chars().next_back()?.to_ascii_lowercase() {
        'k' => (&quantity[..quantity.len() - 1], 1e3),
        'm' => (&quantity[..quantity.len() - 1], 1e6),
        'g' => (&quantity[..quantity.len() - 1], 1e9),
        _ => (quantity, 1.0),
    };
    let number: f64 = number.trim_end().parse().ok()?;
    // NaN, negative and huge numbers saturate to 0 or to the maximum, which are not valid rates.
    Some((number * unit / 8.0) as u64)
}

/// Number of bytes of a quantity in bytes, whose unit has a capital `B`: a small `b` means bits.
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
    fn rates_are_bits_or_bytes() {
        assert_eq!(per_second("100Mbit/s"), 12_500_000);
        assert_eq!(per_second("1.5 kbit/s"), 187);
        assert_eq!(per_second("2gbit/s"), 250_000_000);
        assert_eq!(per_second("800bit/s"), 100);
        assert_eq!(per_second("5Mb/s"), 625_000);
        assert_eq!(per_second("8b/s"), 1);
        assert_eq!(per_second("12.5MB/s"), 12_500_000);
        assert_eq!(per_second("1MiB/s"), 1 << 20);
        assert_eq!(per_second("500B/s"), 500);
    }

    #[test]
    fn an_invalid_rate_is_refused_with_examples() {
        let wrong =
            ["", "/s", "100", "100Mbit", "100M/s", "0MB/s", "1bit/s", "-1MB/s", "-5bit/s", "NaNbit/s"];
        for text in wrong.into_iter().chain(["infbit/s", "1e30bit/s", "5TiB/s", "fastbit/s", "é/s", "ébit/s"])
        {
            let error = text.parse::<RateSpec>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("invalid rate {text}: expected bits such as 100Mbit/s")),
                "{error}"
            );
        }
    }

    #[test]
    fn the_default_burst_is_a_tenth_of_a_second() {
        let rate: RateSpec = "8Mbit/s".parse().unwrap();
        assert_eq!(rate.rate(None).burst, 100_000);
        assert_eq!(rate.rate(Some(5)).burst, 5);
    }
}
