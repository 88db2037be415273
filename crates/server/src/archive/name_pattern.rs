//! Times in the names of recordings.

use std::fmt;

use chrono::format::{Item, Parsed, StrftimeItems, parse};
use chrono::{Local, MappedLocalTime, NaiveDateTime, Offset as _, TimeDelta};

/// Extensions of recordings.
const EXTENSIONS: [&str; 9] = ["ts", "m2ts", "mts", "mp4", "m4a", "mov", "mkv", "mka", "webm"];

/// Time zone of names that do not contain one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeZone {
    /// UTC.
    #[default]
    Utc,
    /// The zone of the server.
    Local,
}

/// Pattern of the names of recordings, without their extensions: text and the fields of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    text: String,
    items: Vec<Item<'static>>,
    zone: TimeZone,
}

/// A text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A place is not known.
    #[error("{0}: unknown conversion: expected a pattern such as %Y-%m-%dT%H-%M-%S")]
    Unknown(String),
    /// Names of this pattern contain no time.
    #[error("{0}: names would have no time: expected at least %Y, %m, %d, %H and %M, or %s")]
    Incomplete(String),
    /// Recordings of subfolders are not found.
    #[error("{0}: expected a pattern of file names, without a slash")]
    Slash(String),
}

impl NamePattern {
    /// Pattern where none is given.
    pub const USUAL: &'static str = "%Y-%m-%dT%H-%M-%S";

    /// Parses a pattern of strftime(3): `cam-%Y%m%d-%H%M%S`. The field `%z` is the offset from UTC; without
    /// it times are of `zone`.
    pub fn parse(text: &str, zone: TimeZone) -> Result<NamePattern, PatternError> {
        if text.contains('/') {
            return Err(PatternError::Slash(text.to_owned()));
        }
        let items = StrftimeItems::new(text).parse_to_owned();
        let items = items.map_err(|_| PatternError::Unknown(text.to_owned()))?;
        let pattern = NamePattern { text: text.to_owned(), items, zone };
        // Checks that the pattern can parse the time that it writes.
        let name = format!("{}.ts", chrono::DateTime::UNIX_EPOCH.format_with_items(pattern.items.iter()));
        match pattern.time_us(name.as_bytes()) {
            Some(_) => Ok(pattern),
            None => Err(PatternError::Incomplete(text.to_owned())),
        }
    }

    /// The same pattern for another time zone.
    pub fn in_zone(self, zone: TimeZone) -> NamePattern {
        NamePattern { zone, ..self }
    }

    /// Time zone of names that do not contain one.
    pub fn zone(&self) -> TimeZone {
        self.zone
    }

    /// Time in a name, in microseconds since 1970; none if the name does not match or the time is before
    /// 1970.
    pub(crate) fn time_us(&self, name: &[u8]) -> Option<i64> {
        let (stem, extension) = std::str::from_utf8(name).ok()?.rsplit_once('.')?;
        if !EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension)) {
            return None;
        }
        let mut parsed = Parsed::new();
        parse(&mut parsed, stem, self.items.iter()).ok()?;
        let time_us = if parsed.offset().is_some() {
            parsed.to_datetime().ok()?.timestamp_micros()
        } else {
            let naive = parsed.to_naive_datetime_with_offset(0).ok()?;
            match self.zone {
                TimeZone::Local if parsed.timestamp().is_none() => utc_us(&Local, naive)?,
                _ => naive.and_utc().timestamp_micros(),
            }
        };
        (time_us >= 0).then_some(time_us)
    }
}

/// Converts a time on a local clock to microseconds since 1970. A time that occurs twice, because the clock
/// is set back, is the first one. A time that is skipped, because the clock is set forward, has the offset
/// from before.
fn utc_us<Zone: chrono::TimeZone>(zone: &Zone, local: NaiveDateTime) -> Option<i64> {
    // The candidates are unordered, and some are wrong near clock changes.
    let offsets = match zone.offset_from_local_datetime(&local) {
        MappedLocalTime::None => [None, None],
        MappedLocalTime::Single(offset) => [Some(offset.fix()), None],
        MappedLocalTime::Ambiguous(one, other) => [Some(one.fix()), Some(other.fix())],
    };
    let shows_it =
        |utc: &NaiveDateTime| utc.checked_add_offset(zone.offset_from_utc_datetime(utc).fix()) == Some(local);
    let times = offsets.into_iter().flatten().filter_map(|offset| local.checked_sub_offset(offset));
    let utc = times.filter(shows_it).min().or_else(|| {
        // Clocks skip an hour or two, or a whole day where a country crossed the date line.
        let before = [3, 27].into_iter().find_map(|hours| {
            let earlier = local.checked_sub_signed(TimeDelta::hours(hours))?;
            zone.offset_from_local_datetime(&earlier).latest()
        })?;
        local.checked_sub_offset(before.fix())
    })?;
    Some(utc.and_utc().timestamp_micros())
}

impl fmt::Display for NamePattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> NamePattern {
        NamePattern::parse(text, TimeZone::Utc).unwrap()
    }

    /// Promise: Times of recordings are parsed from their names by a strftime pattern.
    #[test]
    fn names_have_times() {
        const TEN: i64 = 1_795_428_000_000_000; // 2026-11-23T10:00:00Z
        for (form, name, expected) in [
            (NamePattern::USUAL, "2026-11-23T10-00-00.mp4", Some(TEN)),
            (NamePattern::USUAL, "2026-11-23T10-00-00.TS", Some(TEN)),
            (NamePattern::USUAL, "2026-11-23T10-00-00.txt", None),
            (NamePattern::USUAL, "2026-11-23T10-00-00.mp4.part", None),
            (NamePattern::USUAL, "2026-11-23T10-00.mp4", None),
            (NamePattern::USUAL, "2026-02-30T10-00-00.mp4", None),
            (NamePattern::USUAL, "1969-11-23T10-00-00.mp4", None),
            ("cam-%Y%m%d-%H%M", "cam-20261123-1000.mkv", Some(TEN)),
            ("%Y%m%d_%H%M%S%.f", "20261123_100000.250.ts", Some(TEN + 250_000)),
            ("%Y%m%dT%H%M%S%z", "20261123T120000+0200.ts", Some(TEN)),
            ("%s", "1795428000.ts", Some(TEN)),
        ] {
            assert_eq!(pattern(form).time_us(name.as_bytes()), expected, "{form} {name}");
        }
        assert_eq!(pattern(NamePattern::USUAL).time_us(b"2026-11-23T10-00-\xff.ts"), None);
    }

    #[test]
    fn patterns_without_a_time_are_refused() {
        for text in ["", "cam", "%Y-%m-%d", "%H-%M-%S", "%Q"] {
            assert!(NamePattern::parse(text, TimeZone::Utc).is_err(), "{text}");
        }
        let refused = NamePattern::parse("%Y/%m/%d/%H-%M-%S", TimeZone::Utc);
        assert!(matches!(refused, Err(PatternError::Slash(_))));
    }

    proptest! {
        #[test]
        fn no_name_panics(name in prop::collection::vec(any::<u8>(), 0..60), form in "[%YmdHMSzsf.-]{0,20}") {
            _ = pattern(NamePattern::USUAL).time_us(&name);
            if let Ok(pattern) = NamePattern::parse(&form, TimeZone::Local) {
                _ = pattern.time_us(&name);
            }
        }

        #[test]
        fn a_time_that_is_written_in_a_name_is_read(second in 0_i64..4_102_444_800) {
            let time = chrono::DateTime::from_timestamp(second, 0).unwrap();
            let name = format!("{}.mkv", time.format(NamePattern::USUAL));
            prop_assert_eq!(pattern(NamePattern::USUAL).time_us(name.as_bytes()), Some(second * 1_000_000));
        }
    }
}
