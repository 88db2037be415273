//! Values of fields.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

use crate::HeadError;

/// The value of a field, if it is there once and is text.
pub fn only<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = fields.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// All lines of a field as one list (RFC 9110 section 5.3).
pub fn joined(fields: &HeaderMap, name: &HeaderName) -> Option<String> {
    let text = |line: &HeaderValue| String::from_utf8_lossy(line.as_bytes()).into_owned();
    let lines: Vec<String> = fields.get_all(name).iter().map(text).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// The date of a field, in seconds since 1970, if it is there once and is a date.
pub fn date_s(fields: &HeaderMap, name: &HeaderName) -> Option<u64> {
    only(fields, name).and_then(parse_date_s)
}

/// A date in any of the three forms of RFC 9110 section 5.6.7, in seconds since 1970; earlier ones count as
/// unreadable.
pub(crate) fn parse_date_s(value: &str) -> Option<u64> {
    let date = httpdate::parse_http_date(value.trim()).ok()?;
    date.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// The value of `Content-Length`.
///
/// # Errors
/// [`HeadError::BodyLength`] if it is there twice or is not a number.
pub fn content_length(fields: &HeaderMap) -> Result<Option<u64>, HeadError> {
    let mut values = fields.get_all(header::CONTENT_LENGTH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let length = value.to_str().ok().filter(is_number).and_then(|digits| digits.parse().ok());
    if values.next().is_some() {
        Err(HeadError::BodyLength)
    } else {
        length.map(Some).ok_or(HeadError::BodyLength)
    }
}
