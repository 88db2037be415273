//! NTP timestamps (RFC 3550 section 4).

use std::time::Duration;

/// Seconds from 1900, the epoch of NTP, to 1970, the Unix epoch (RFC 868).
const SECONDS_TO_UNIX: u64 = 2_208_988_800;

/// Wall-clock time: seconds since 1900 in the upper 32 bits, fraction in the lower 32. Wraps in 2036.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NtpTime(u64);

impl NtpTime {
    /// Converts a Unix time.
    pub fn from_unix(since_1970: Duration) -> Self {
        let seconds = since_1970.as_secs().wrapping_add(SECONDS_TO_UNIX);
        let fraction = (u64::from(since_1970.subsec_nanos()) << 32) / 1_000_000_000;
        Self(seconds << 32 | fraction)
    }

    /// Time of these 64 bits of a sender report.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the 64 bits of a sender report.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the middle 32 bits, which receivers send back: in 1/65536 s, wraps after 18 hours.
    pub fn middle(self) -> u32 {
        (self.0 >> 16) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_time_becomes_ntp_time() {
        assert_eq!(NtpTime::from_unix(Duration::ZERO).to_bits(), SECONDS_TO_UNIX << 32);
        // RFC 3550 section 6.4.1, figure 2: 10 Nov 1995, 11:33:25.125 UTC is 0xb44db705:20000000.
        let figure = NtpTime::from_unix(Duration::from_millis(816_003_205_125));
        assert_eq!(figure.to_bits(), 0xb44d_b705_2000_0000);
        assert_eq!(figure.middle(), 0xb705_2000);
    }

    #[test]
    fn time_wraps_in_2036() {
        let wrap = Duration::from_secs((1 << 32) - SECONDS_TO_UNIX);
        assert_eq!(NtpTime::from_unix(wrap).to_bits(), 0);
        assert_eq!(NtpTime::from_unix(wrap - Duration::from_nanos(1)).to_bits() >> 32, u64::from(u32::MAX));
    }
}
