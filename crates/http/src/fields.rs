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
    only(fields, name).and_then(crate::condition::date_s)
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
