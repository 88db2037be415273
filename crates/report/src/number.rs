//! Figures as people read them: three digits that count, and always a unit.

/// Text for a missing figure.
pub const NOTHING: &str = "–";

/// Three digits that count, thousands apart: `0.0321`, `1.04`, `12,300`.
pub fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if magnitude == 0.0 {
        return "0".to_owned();
    }
    if !(1e-6..1e9).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    // Rounding first: 9.996 has the digits of 10.
    let rounded: f64 = format!("{magnitude:.2e}").parse().unwrap_or(magnitude);
    let decimals = (2 - rounded.log10().floor() as i32).max(0) as usize;
    let sign = if value < 0.0 { "−" } else { "" };
    match decimals {
        0 => format!("{sign}{}", count(rounded as u64)),
        decimals => format!("{sign}{rounded:.decimals$}"),
    }
}

/// A time in the unit that suits it.
pub fn time(seconds: f64) -> String {
    let (unit, scale) = time_unit(seconds);
    format!("{} {unit}", significant(seconds * scale))
}

/// The unit that suits a time, and how many of it a second has.
pub fn time_unit(seconds: f64) -> (&'static str, f64) {
    match seconds.abs() {
        0.0 => ("s", 1.0),
        ..1e-6 => ("ns", 1e9),
        ..1e-3 => ("µs", 1e6),
        ..1.0 => ("ms", 1e3),
        _ => ("s", 1.0),
    }
}

/// A whole number with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes, exactly: `1,460 B`, `64 KiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = |(unit, _): &&(u64, &str)| bytes >= 4096 && bytes.is_multiple_of(*unit);
    match UNITS.iter().find(fits) {
        Some((unit, name)) => format!("{} {name}", count(bytes / unit)),
        None => format!("{} B", count(bytes)),
    }
}

/// Bytes, about: `15.6 GiB`.
pub fn about_bytes(bytes: u64) -> String {
    let (unit, name) = match bytes.checked_ilog2().unwrap_or_default() {
        ..10 => return format!("{bytes} B"),
        10..20 => (10, "KiB"),
        20..30 => (20, "MiB"),
        30.. => (30, "GiB"),
    };
    format!("{} {name}", significant(bytes as f64 / (1u64 << unit) as f64))
}

/// The size of a packet or of a call.
pub fn size(size: Option<u64>) -> String {
    size.map_or_else(|| "whole file".to_owned(), bytes)
}

/// Bytes per second, in bits as networks count.
pub fn bit_rate(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    let (scale, unit) = match bits.abs() {
        ..1e6 => (1e3, "kb/s"),
        ..1e9 => (1e6, "Mb/s"),
        _ => (1e9, "Gb/s"),
    };
    format!("{} {unit}", significant(bits / scale))
}

/// A share: `14 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value.abs() {
        _ if !value.is_finite() => NOTHING.to_owned(),
        0.0 => "0 %".to_owned(),
        ..9.95 => format!("{} %", minus(format!("{value:.1}"))),
        _ => format!("{} %", minus(format!("{value:.0}"))),
    }
}

/// A spread; of too few runs it is not known.
pub fn spread(spread: Option<f64>) -> String {
    spread.map_or_else(|| "?".to_owned(), percent)
}

/// A change, with its sign: `+24.5 %`, `−48.1 %`.
pub fn change(share: f64) -> String {
    let value = share * 100.0;
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    format!("{} %", minus(format!("{value:+.1}")))
}

/// A ratio: `1.08`, and small ones as fractions too: `0.0250 (1/40)`.
pub fn ratio(ratio: f64) -> String {
    if !(0.0..=0.5).contains(&ratio) || ratio == 0.0 {
        return significant(ratio);
    }
    let parts = 1.0 / ratio;
    let parts = if parts < 9.95 { format!("{parts:.1}") } else { format!("{parts:.0}") };
    format!("{} (1/{parts})", significant(ratio))
}

/// Text of others that is to be shown: what could move a cursor or reverse the line becomes an escape.
pub fn visible(text: &str) -> String {
    let harmful = |letter: &char| {
        letter.is_control()
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().fold(String::with_capacity(text.len()), |mut shown, letter| {
        match harmful(&letter) {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
        shown
    })
}

/// The sign that is as wide as a plus.
fn minus(number: String) -> String {
    match number.strip_prefix('-') {
        Some(rest) => format!("−{rest}"),
        None => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let values = [0.0, 0.03214, 0.9996, 9.996, 12.34, 999.6, 12_345.0, -0.5, 1.5e-9, f64::NAN];
        let expected = ["0", "0.0321", "1.00", "10.0", "12.3", "1,000", "12,300", "−0.500", "1.50e-9", "–"];
        assert_eq!(values.map(significant), expected);
    }

    #[test]
    fn every_figure_has_its_unit() {
        assert_eq!(
            [920e-9, 2.5e-6, 0.0032, 1.2, 0.0].map(time),
            ["920 ns", "2.50 µs", "3.20 ms", "1.20 s", "0 s"]
        );
        assert_eq!(
            [8, 1460, 2048, 4096, 32 << 20].map(bytes),
            ["8 B", "1,460 B", "2,048 B", "4 KiB", "32 MiB"]
        );
        assert_eq!([1e5, 1.25e8, 2.5e9].map(bit_rate), ["800 kb/s", "1.00 Gb/s", "20.0 Gb/s"]);
        assert_eq!([0.004, 0.144, -0.02, 0.0].map(percent), ["0.4 %", "14 %", "−2.0 %", "0 %"]);
        assert_eq!([Some(0.0), None].map(spread), ["0 %", "?"]);
        assert_eq!([0.2446, -0.481].map(change), ["+24.5 %", "−48.1 %"]);
        assert_eq!([0.025, 0.4, 1.08].map(ratio), ["0.0250 (1/40)", "0.400 (1/2.5)", "1.08"]);
        assert_eq!(size(None), "whole file");
    }

    #[test]
    fn others_text_cannot_command_the_terminal() {
        assert_eq!(visible("a\u{1b}[2J\n\u{202e}é"), "a\\u{1b}[2J\\n\\u{202e}é");
    }
}
