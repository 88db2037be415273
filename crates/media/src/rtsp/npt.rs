//! Normal play time and the `Range` header (RFC 2326 sections 3.6 and 12.29).

use super::request::{Refusal, Request};
use rtsp_types::StatusCode;
use std::fmt;

/// Normal play time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Npt {
    /// `now`: for stored media, the current position of the session.
    Now,
    /// Microseconds from the beginning.
    At(u64),
}

/// Range of normal play time. At most one end may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NptRange {
    /// Beginning; by default, the current position of the session.
    pub start: Option<Npt>,
    /// End; by default, the end of the presentation.
    pub end: Option<Npt>,
}

impl NptRange {
    /// Parses the `Range` of a request. Errors: status 501 for units other than `npt`, 457 out of bounds, 400
    /// if invalid. The end may be before the beginning, to play backward.
    pub fn of(request: &Request) -> Result<Option<Self>, Refusal> {
        request.headers.first("Range").map(Self::parse).transpose()
    }

    /// Parses the value of a `Range` header.
    pub fn parse(value: &str) -> Result<Self, Refusal> {
        let mut parameters = value.split(';').map(str::trim);
        let range = parameters.next().unwrap_or_default();
        if parameters.any(|parameter| parameter.to_ascii_lowercase().starts_with("time")) {
            return Err(refuse(StatusCode::NotImplemented, value, "playing cannot be scheduled by `time=`"));
        }
        let (unit, range) = range.split_once('=').ok_or_else(|| bad(value))?;
        if !unit.trim().eq_ignore_ascii_case("npt") {
            return Err(refuse(StatusCode::NotImplemented, value, "only `npt=` is understood"));
        }
        if range.contains(',') {
            return Err(refuse(StatusCode::NotImplemented, value, "one range at a time is understood"));
        }
        Self::parse_ends(value, range)
    }

    fn parse_ends(value: &str, range: &str) -> Result<Self, Refusal> {
        let (start, end) = range.split_once('-').ok_or_else(|| bad(value))?;
        let range = Self { start: parse_time(value, start)?, end: parse_time(value, end)? };
        match range {
            Self { start: None, end: None } => Err(bad(value)),
            range => Ok(range),
        }
    }
}

impl fmt::Display for Npt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Now => formatter.write_str("now"),
            Self::At(us) if us % 1000 == 0 => {
                write!(formatter, "{}.{:03}", us / 1_000_000, us / 1000 % 1000)
            }
            Self::At(us) => write!(formatter, "{}.{:06}", us / 1_000_000, us % 1_000_000),
        }
    }
}

impl fmt::Display for NptRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("npt=")?;
        if let Some(start) = self.start {
            write!(formatter, "{start}")?;
        }
        formatter.write_str("-")?;
        self.end.map_or(Ok(()), |end| write!(formatter, "{end}"))
    }
}

pub(super) fn refuse(status: StatusCode, value: &str, why: &str) -> Refusal {
    Refusal::new(status, format!("Range: {value}: {why}"))
}

fn bad(value: &str) -> Refusal {
    refuse(StatusCode::BadRequest, value, "not of the form npt=BEGIN-END")
}

fn parse_time(value: &str, time: &str) -> Result<Option<Npt>, Refusal> {
    let time = time.trim();
    if time.is_empty() {
        return Ok(None);
    }
    if time.eq_ignore_ascii_case("now") {
        return Ok(Some(Npt::Now));
    }
    let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
    let valid = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !valid(fraction) || !whole.split(':').all(|part| !part.is_empty() && valid(part)) {
        return Err(bad(value));
    }
    let seconds = parse_seconds(value, whole)?;
    let us = seconds.and_then(|seconds| seconds.checked_mul(1_000_000)?.checked_add(micros(fraction)));
    let us = us.ok_or_else(|| refuse(StatusCode::InvalidRange, value, "the time is out of bounds"))?;
    Ok(Some(Npt::At(us)))
}

/// Parses `SS`, or `HH:MM:SS` with any number of hours; also `MM:SS`, which people type. `None` if too large.
fn parse_seconds(value: &str, whole: &str) -> Result<Option<u64>, Refusal> {
    let parts: Vec<Option<u64>> = whole.split(':').take(4).map(|part| part.parse().ok()).collect();
    let (hours, minutes, seconds) = match parts[..] {
        [seconds] => return Ok(seconds),
        [minutes, seconds] => (Some(0), minutes, seconds),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(bad(value)),
    };
    match (minutes, seconds) {
        (Some(minutes @ 0..60), Some(seconds @ 0..60)) => {
            Ok(hours.and_then(|hours| hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds)))
        }
        _ => Err(bad(value)),
    }
}

/// Converts the digits after the point to microseconds; further digits are dropped.
fn micros(fraction: &str) -> u64 {
    fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(6)
        .fold(0, |us, digit| us * 10 + u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: Option<u64>, end: Option<u64>) -> NptRange {
        NptRange { start: start.map(Npt::At), end: end.map(Npt::At) }
    }

    /// Promise: `Range: npt=` plays from, up to and between times and from `now`.
    #[test]
    fn ranges_of_real_clients_are_read() {
        for (value, expected) in [
            ("npt=0.000-", range(Some(0), None)),
            ("npt=1.5-", range(Some(1_500_000), None)),
            ("npt=0:01:02.5-", range(Some(62_500_000), None)),
            ("npt=01:02-2:00:00", range(Some(62_000_000), Some(7_200_000_000))),
            ("npt=-10", range(None, Some(10_000_000))),
            ("NPT = 5 - 7.25 ", range(Some(5_000_000), Some(7_250_000))),
            ("npt=7.-8", range(Some(7_000_000), Some(8_000_000))),
            ("npt=0.0000009-", range(Some(0), None)),
            ("npt=now-", NptRange { start: Some(Npt::Now), end: None }),
            ("npt=now-9", NptRange { start: Some(Npt::Now), end: Some(Npt::At(9_000_000)) }),
        ] {
            assert_eq!(NptRange::parse(value), Ok(expected), "{value}");
        }
    }

    #[test]
    fn ranges_that_cannot_be_played_say_why() {
        for (value, status) in [
            ("npt=-", 400),
            ("npt=", 400),
            ("npt", 400),
            ("npt=5", 400),
            ("npt=a-b", 400),
            ("npt=--5", 400),
            ("npt=.5-", 400),
            ("npt=1:60:00-", 400),
            ("npt=1:2:3:4-", 400),
            ("npt=+5-", 400),
            ("npt=99999999999999999999-", 457),
            ("npt=18446744073710-", 457),
            ("npt=99999999999999999999:00:00-", 457),
            ("npt=0-5,10-15", 501),
            ("smpte=10:12:33:20-", 501),
            ("clock=19961108T143720.25Z-", 501),
            ("bytes=0-", 501),
            ("npt=0-;time=19970123T143720Z", 501),
        ] {
            let refusal = NptRange::parse(value).expect_err(value);
            assert_eq!((u16::from(refusal.status), refusal.close), (status, false), "{value}");
            assert!(refusal.why.contains(value), "{}", refusal.why);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(start in 0..u64::MAX / 2, end in 0..u64::MAX, open: bool) {
            let written = range(Some(start), (!open).then_some(end));
            prop_assert_eq!(NptRange::parse(&written.to_string()), Ok(written));
        }

        #[test]
        fn no_value_panics(value in "\\PC*") {
            _ = NptRange::parse(&value);
            _ = NptRange::parse(&format!("npt={value}"));
        }
    }
}
