//! Parsers of parts of settings: names, sizes, numbers.

use std::fmt::Display;
use std::str::FromStr;

use bytesize::ByteSize;

use super::SpecError;

/// Splits a setting at a colon into its name and value.
pub(super) fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, value)) if !value.is_empty() => (name, Some(value)),
        _ => (text, None),
    }
}

pub(super) fn unknown<T>(text: &str, what: &str, known: &str) -> Result<T, SpecError> {
    Err(SpecError(format!("unknown {what} \"{text}\": expected {known}")))
}

pub(super) fn size(text: &str) -> Result<usize, SpecError> {
    let parsed = text.parse::<ByteSize>().ok().and_then(|size| usize::try_from(size.as_u64()).ok());
    parsed
        .filter(|size| (1..=1 << 30).contains(size))
        .ok_or_else(|| SpecError(format!("invalid size {text}: expected 1 B to 1 GiB")))
}

pub(super) fn seed_of(text: Option<&str>) -> Result<u64, SpecError> {
    text.map_or(Ok(0), |text| {
        text.parse().map_err(|_| SpecError(format!("invalid seed {text}: expected a number")))
    })
}

pub(super) fn number<T: FromStr + PartialOrd + Display>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, SpecError> {
    let parsed = text.parse().ok().filter(|number| *number >= least && *number <= most);
    parsed.ok_or_else(|| SpecError(format!("invalid value {text}: expected {least} to {most}")))
}
