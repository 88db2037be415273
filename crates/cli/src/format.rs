//! Formats of figures and names.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use bytesize::ByteSize;
use humantime::format_rfc3339_nanos;
use wirepath_report::number;
pub(crate) use wirepath_report::number::count;

/// Formats a time in microseconds as `m:ss.mmm`, or as `h:mm:ss.mmm` from an hour on.
pub(crate) fn time(us: u64) -> String {
    let (seconds, milliseconds) = (us / 1_000_000, us / 1000 % 1000);
    format!("{}.{milliseconds:03}", clock(seconds))
}

/// Formats a time in seconds as `m:ss`, or as `h:mm:ss` from an hour on.
pub(crate) fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Formats a time in nanoseconds since 1970 by RFC 3339, up to the year 9999.
pub(crate) fn moment(unix_ns: i64) -> String {
    let moment = u64::try_from(unix_ns).map(|ns| UNIX_EPOCH + Duration::from_nanos(ns));
    // Nanoseconds in an i64 end in the year 2262.
    moment.map_or_else(
        |_| format!("{unix_ns} ns after 1970"),
        |moment| format_rfc3339_nanos(moment).to_string(),
    )
}

/// Formats bits per second with three significant digits: `1.92 Mbit/s`.
pub(crate) fn bit_rate(bits_per_second: u64) -> String {
    let mut value = bits_per_second as f64;
    let mut unit = "bit/s";
    for larger in ["kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    if unit == "bit/s" { format!("{value} {unit}") } else { format!("{} {unit}", number::significant(value)) }
}

/// Formats a number of bytes: `30.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    ByteSize(bytes).to_string()
}

/// Formats a number with its noun: `1 train`, `1,234 trains`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Formats a path for a terminal, and escapes control characters.
pub(crate) fn name(path: &Path) -> String {
    number::visible(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_hours_only_when_there_are_some() {
        assert_eq!(time(0), "0:00.000");
        assert_eq!(time(62_003_999), "1:02.003");
        assert_eq!(time(3_600_000_000), "1:00:00.000");
        assert_eq!(clock(u64::MAX / 1_000_000), "5124095576:01:49");
    }

    #[test]
    fn moments_are_dates_where_they_can_be() {
        assert_eq!(moment(1_500_000_000), "1970-01-01T00:00:01.500000000Z");
        assert!(moment(i64::MAX).starts_with("2262-"));
        assert_eq!(moment(-7), "-7 ns after 1970");
    }

    /// Promise: Rates are printed with three digits, and not for runs that took no time.
    #[test]
    fn bit_rates_have_three_digits_that_count() {
        let shown =
            [0, 999, 1000, 1_915_000, 9_999_999, 10_040_000, 99_960_000, 999_700_000, u64::MAX].map(bit_rate);
        let expected = [
            "0 bit/s",
            "999 bit/s",
            "1.00 kbit/s",
            "1.92 Mbit/s",
            "10.0 Mbit/s",
            "10.0 Mbit/s",
            "100 Mbit/s",
            "1.00 Gbit/s",
            "18,400,000 Tbit/s",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1, "train", "trains"), "1 train");
    }

    /// Promise: A file name cannot send control sequences to the terminal.
    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(name(Path::new("a\u{1b}[2Jb\n\u{202e}é")), "a\\u{1b}[2Jb\\n\\u{202e}é");
    }
}
