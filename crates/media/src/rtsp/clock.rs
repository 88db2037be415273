//! Absolute time (RFC 2326 section 3.7), and `Range` headers with absolute times.

use super::npt::{NptRange, refuse};
use super::request::{Refusal, Request};
use chrono::{DateTime, NaiveDateTime};
use rtsp_types::StatusCode;
use std::fmt;

/// Format of absolute times: `20261123T100000.25Z`. The fraction is optional.
const FORM: &str = "%Y%m%dT%H%M%S%.fZ";

/// Absolute time: microseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockTime(pub i64);

/// Range of absolute time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRange {
    /// Beginning.
    pub start: ClockTime,
    /// End; the presentation's end by default.
    pub end: Option<ClockTime>,
}

/// `Range` of a request to play a presentation that may have absolute times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeRange {
    /// Normal play time.
    Npt(NptRange),
    /// Absolute time.
    Clock(ClockRange),
}

impl ClockTime {
    /// Parses a time; `None` if it is invalid or before 1970.
    pub fn parse(text: &str) -> Option<ClockTime> {
        let time = NaiveDateTime::parse_from_str(text, FORM).ok()?.and_utc().timestamp_micros();
        (time >= 0).then_some(ClockTime(time))
    }
}

impl fmt::Display for ClockTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = DateTime::from_timestamp_micros(self.0).unwrap_or_default();
        match self.0 % 1_000_000 {
            0 => write!(formatter, "{}", time.format("%Y%m%dT%H%M%SZ")),
            fraction if fraction % 1000 == 0 => write!(formatter, "{}", time.format("%Y%m%dT%H%M%S%.3fZ")),
            _ => write!(formatter, "{}", time.format("%Y%m%dT%H%M%S%.6fZ")),
        }
    }
}

impl ClockRange {
    /// Parses the value of a `Range` header.
    fn parse(value: &str) -> Result<Self, Refusal> {
        let bad = || refuse(StatusCode::BadRequest, value, "not of the form clock=20261123T100000Z-");
        let (_, range) = value.split_once('=').ok_or_else(bad)?;
        let (start, end) = range.split_once('-').ok_or_else(bad)?;
        let time = |text: &str| ClockTime::parse(text.trim()).ok_or_else(bad);
        let end = if end.trim().is_empty() { None } else { Some(time(end)?) };
        let start = time(start)?;
        if end.is_some_and(|end| end <= start) {
            return Err(refuse(StatusCode::InvalidRange, value, "it ends before it begins"));
        }
        Ok(Self { start, end })
    }
}

impl fmt::Display for ClockRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "clock={}-", self.start)?;
        self.end.map_or(Ok(()), |end| write!(formatter, "{end}"))
    }
}

impl TimeRange {
    /// Parses the `Range` of a request. Errors are those of [`NptRange::of`].
    pub fn of(request: &Request) -> Result<Option<Self>, Refusal> {
        request.headers.first("Range").map(Self::parse).transpose()
    }

    /// Parses the value of a `Range` header.
    pub fn parse(value: &str) -> Result<Self, Refusal> {
        let is_clock =
            value.split_once('=').is_some_and(|(unit, _)| unit.trim().eq_ignore_ascii_case("clock"));
        match is_clock && !value.contains([';', ',']) {
            true => ClockRange::parse(value).map(TimeRange::Clock),
            false => NptRange::parse(value).map(TimeRange::Npt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-23T10:00:00Z as microseconds.
    const TEN: i64 = 1_795_428_000_000_000;

    #[test]
    fn absolute_ranges_are_read() {
        let range = |start, end: Option<i64>| {
            TimeRange::Clock(ClockRange { start: ClockTime(start), end: end.map(ClockTime) })
        };
        for (value, expected) in [
            ("clock=20261123T100000Z-", range(TEN, None)),
            ("clock=20261123T100000.25Z-", range(TEN + 250_000, None)),
            ("Clock = 20261123T100000Z - 20261123T100001.000001Z", range(TEN, Some(TEN + 1_000_001))),
        ] {
            assert_eq!(TimeRange::parse(value), Ok(expected), "{value}");
        }
        assert!(matches!(TimeRange::parse("npt=5-"), Ok(TimeRange::Npt(_))));
    }

    #[test]
    fn absolute_ranges_that_cannot_be_played_say_why() {
        for (value, status) in [
            ("clock=", 400),
            ("clock=-", 400),
            ("clock=-20261123T100000Z", 400),
            ("clock=20261123T100000-", 400),
            ("clock=20261323T100000Z-", 400),
            ("clock=19691231T235959Z-", 400),
            ("clock=20261123T100000Z", 400),
            ("clock=20261123T100000Z-20261123T100000Z", 457),
            ("clock=20261123T100000Z-;time=19970123T143720Z", 501),
            ("smpte=10:12:33:20-", 501),
        ] {
            let refusal = TimeRange::parse(value).expect_err(value);
            assert_eq!(u16::from(refusal.status), status, "{value}");
            assert!(refusal.why.contains(value), "{}", refusal.why);
        }
    }

    proptest! {
        #[test]
        fn a_time_that_is_written_is_read_again(us in 0..253_402_300_799_999_999_i64) {
            let time = ClockTime(us);
            prop_assert_eq!(ClockTime::parse(&time.to_string()), Some(time));
        }

        #[test]
        fn no_value_panics(value in "\\PC*") {
            _ = TimeRange::parse(&value);
            _ = TimeRange::parse(&format!("clock={value}"));
        }
    }
}
