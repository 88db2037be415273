//! Times in the names of recordings and of their folders.

mod level;
#[cfg(test)]
mod tests;

use std::fmt;

use chrono::format::{Item, Parsed};
use chrono::{DateTime, Local, MappedLocalTime, NaiveDateTime, Offset as _, TimeDelta, Utc};

use self::level::{Level, is_date_or_time, is_printable, is_timestamp, is_zone_name, items, written};

/// Extensions of recordings.
const EXTENSIONS: [&str; 9] = ["ts", "m2ts", "mts", "mp4", "m4a", "mov", "mkv", "mka", "webm"];

/// Most folders in a pattern.
const MOST_DEPTH: usize = 8;

/// Time zone of names that do not contain one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeZone {
    /// UTC.
    #[default]
    Utc,
    /// The zone of the server.
    Local,
}

/// Pattern of the names of recordings, without their extensions: text and the fields of a time. Slashes
/// separate the names of folders, which may have fields, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    text: String,
    /// The names of folders from the outermost on, then the names of files.
    levels: Vec<Level>,
    zone: TimeZone,
}

/// Text that is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A conversion is not known.
    #[error("{0}: unknown conversion: expected a pattern such as %Y-%m-%dT%H-%M-%S")]
    Unknown(String),
    /// Names of this pattern contain no time.
    #[error("{0}: names would have no time: expected at least %Y, %m, %d, %H and %M, or %s")]
    Incomplete(String),
    /// MediaMTX's name of a camera.
    #[error(
        "{0}: %path is unknown: one archive has one camera; write the path of its folder in URLs before `=`, as in \
         cams/door=%Y-%m-%d_%H-%M-%S-%f"
    )]
    MediaPath(String),
    /// A name is empty or hidden.
    #[error(
        "{0}: a name is empty or begins with a dot, and hidden files are not served: expected names with single \
         slashes between them, as in %Y-%m-%d/%H-%M-%S"
    )]
    Name(String),
    /// A name begins with a space or has control characters.
    #[error(
        "{0}: a name begins with a space or contains a control character, and such files are left out: expected %d, \
         %H or %I instead of %e, %k or %l, and no %n or %t"
    )]
    Unprintable(String),
    /// A time that is written in a name cannot be parsed, or another time is parsed.
    #[error(
        "{0}: the time cannot be parsed from each name: expected fields with all their digits (%H instead of %-H), \
         or text between them"
    )]
    Ambiguous(String),
    /// Seconds since 1970 and other fields.
    #[error(
        "{0}: %s is the whole time already: write %s without fields of the date and time, except %f and those of \
         folders above it, or only these fields, as in %Y-%m-%d/%H-%M-%S"
    )]
    Twice(String),
    /// A name of a time zone.
    #[error(
        "{0}: %Z is the name of a zone, which does not tell the offset from UTC: write %z, the offset; or write the \
         name itself, and --archive-zone local for the server's zone"
    )]
    ZoneName(String),
    /// A conversion contains slashes.
    #[error("{0}: %D and %x contain slashes: write %m/%d/%y if these are folders")]
    Slash(String),
    /// Too many folders.
    #[error("{0}: too many folders: expected at most {MOST_DEPTH}; serve a folder closer to the recordings")]
    Deep(String),
    /// The pattern ends with the extension of recordings.
    #[error("{0}: ends with an extension, which is not part of the pattern: remove it")]
    Extension(String),
}

impl NamePattern {
    /// Pattern where none is given.
    pub const USUAL: &'static str = "%Y-%m-%dT%H-%M-%S";

    /// Parses a pattern of strftime(3): `cam-%Y%m%d-%H%M%S`, or `%Y-%m-%d/%H-%M-%S` with folders. The field
    /// `%z` is the offset from UTC; without it times are of `zone`. `%f` is a fraction of a second in
    /// microseconds, with six digits.
    pub fn parse(text: &str, zone: TimeZone) -> Result<NamePattern, PatternError> {
        let failed = |error: fn(String) -> PatternError| error(text.to_owned());
        let names: Vec<&str> = text.split('/').collect();
        if text.split("%%").any(|part| part.contains("%path")) {
            return Err(failed(PatternError::MediaPath));
        }
        if names.len() > MOST_DEPTH + 1 {
            return Err(failed(PatternError::Deep));
        }
        if stem(text).is_some() {
            return Err(failed(PatternError::Extension));
        }
        let (mut levels, mut within) = (Vec::new(), String::new());
        for (index, name) in names.iter().enumerate() {
            let items = items(name).ok_or_else(|| failed(PatternError::Unknown))?;
            let example = written(&items, example()).ok_or_else(|| failed(PatternError::Unknown))?;
            if example.contains('/') {
                return Err(failed(PatternError::Slash));
            }
            if example.starts_with('.') || (example.is_empty() && names.len() > 1) {
                return Err(failed(PatternError::Name));
            }
            // A day or hour of one digit may be padded with a space.
            let short = written(&items, short_example()).ok_or_else(|| failed(PatternError::Unknown))?;
            if !is_printable(&example) || !is_printable(&short) {
                return Err(failed(PatternError::Unprintable));
            }
            let level = Level { within: within.clone(), items };
            if index + 1 == names.len() || level.has_fields() {
                within.clear();
                levels.push(level);
            } else {
                within = format!("{within}{example}/");
            }
        }
        let has = |levels: &[Level], what: fn(&Item<'_>) -> bool| {
            levels.iter().any(|level| level.items.iter().any(what))
        };
        if has(&levels, is_zone_name) {
            return Err(failed(PatternError::ZoneName));
        }
        // Folders above the timestamp may have the day of it.
        let timestamp = levels.iter().position(|level| level.items.iter().any(is_timestamp));
        if timestamp.is_some_and(|level| has(&levels[level..], is_date_or_time)) {
            return Err(failed(PatternError::Twice));
        }
        // The examples are in UTC.
        let pattern = NamePattern { text: text.to_owned(), levels, zone: TimeZone::Utc };
        match pattern.parsed_name_of(example()) {
            None => Err(failed(PatternError::Incomplete)),
            Some(true) if pattern.parsed_name_of(short_example()) == Some(true) => Ok(pattern.in_zone(zone)),
            Some(_) => Err(failed(PatternError::Ambiguous)),
        }
    }

    /// Returns whether the time that is parsed from the name of a time is this one, except for fields that the
    /// pattern does not have. None if the name cannot be parsed.
    fn parsed_name_of(&self, time: DateTime<Utc>) -> Option<bool> {
        let name = self.name(time)?;
        let parsed = DateTime::from_timestamp_micros(self.time_us(format!("{name}.ts").as_bytes())?)?;
        // A pattern may have no seconds.
        let is_near = (TimeDelta::zero()..TimeDelta::minutes(1)).contains(&(time - parsed));
        Some(is_near && self.name(parsed)? == name)
    }

    /// The same pattern for another time zone.
    pub fn in_zone(self, zone: TimeZone) -> NamePattern {
        NamePattern { zone, ..self }
    }

    /// Time zone of names that do not contain one.
    pub fn zone(&self) -> TimeZone {
        self.zone
    }

    /// Number of levels of names that differ: one for files, and one for each folder in the pattern whose name
    /// has fields.
    pub(super) fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Path of the folder that has the names of a level, from the folder of the level above: empty, or folders
    /// of fixed names, each with a slash behind it.
    pub(super) fn within(&self, level: usize) -> &str {
        self.levels.get(level).map_or("", |level| &level.within)
    }

    /// Fields of the time in the name of a folder and in those above, if the name matches.
    pub(super) fn folder(&self, level: usize, above: &Parsed, name: &[u8]) -> Option<Parsed> {
        self.levels.get(level)?.parse(above, std::str::from_utf8(name).ok()?)
    }

    /// Time of a file below folders with these fields, in microseconds since 1970; none if the name does not
    /// match or the time is before 1970.
    pub(super) fn file(&self, above: &Parsed, name: &[u8]) -> Option<i64> {
        let parsed = self.levels.last()?.parse(above, stem(std::str::from_utf8(name).ok()?)?)?;
        let time_us = if let Some(seconds) = parsed.timestamp() {
            DateTime::from_timestamp(seconds, parsed.nanosecond().unwrap_or(0))?.timestamp_micros()
        } else if parsed.offset().is_some() {
            parsed.to_datetime().ok()?.timestamp_micros()
        } else {
            let naive = parsed.to_naive_datetime_with_offset(0).ok()?;
            match self.zone {
                TimeZone::Local => utc_us(&Local, naive)?,
                TimeZone::Utc => naive.and_utc().timestamp_micros(),
            }
        };
        (time_us >= 0).then_some(time_us)
    }

    /// Time in a name with its folders, in microseconds since 1970.
    pub(super) fn time_us(&self, name: &[u8]) -> Option<i64> {
        let (mut rest, mut fields) = (name, Parsed::new());
        for (index, level) in self.levels.iter().enumerate() {
            rest = rest.strip_prefix(level.within.as_bytes())?;
            if index + 1 < self.levels.len() {
                let slash = rest.iter().position(|byte| *byte == b'/')?;
                fields = self.folder(index, &fields, &rest[..slash])?;
                rest = &rest[slash + 1..];
            }
        }
        self.file(&fields, rest)
    }

    /// Name of a recording that begins at a time, with its folders and without its extension.
    fn name(&self, time: DateTime<Utc>) -> Option<String> {
        let name = |level: &Level| Some(format!("{}{}", level.within, written(&level.items, time)?));
        Some(self.levels.iter().map(name).collect::<Option<Vec<_>>>()?.join("/"))
    }
}

/// A time whose fields differ, with a fraction of a second.
fn example() -> DateTime<Utc> {
    DateTime::from_timestamp_micros(1_795_429_230_123_456).unwrap_or_default()
}

/// A time whose fields have one digit where they are not padded, without a fraction of a second.
fn short_example() -> DateTime<Utc> {
    DateTime::from_timestamp_secs(1_767_323_045).unwrap_or_default()
}

/// Name of a recording without its extension; none if that is no extension of recordings.
fn stem(name: &str) -> Option<&str> {
    let (stem, extension) = name.rsplit_once('.')?;
    EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension)).then_some(stem)
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
