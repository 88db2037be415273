//! Field values.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

use crate::HeadError;

/// Fields of a head, in any representation.
pub trait Fields {
    /// Values of the lines of a field, in order.
    fn values(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]>;

    /// Returns whether the field is present.
    fn has(&self, name: &HeaderName) -> bool {
        self.values(name).next().is_some()
    }
}

impl Fields for HeaderMap {
    fn values(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }
}

/// Lines as parsed. Searching ten lines for a dozen fields costs less than sorting them into a map.
pub(crate) struct ParsedLines<'a>(pub(crate) &'a [httparse::Header<'a>]);

impl Fields for ParsedLines<'_> {
    fn values(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        let name = name.as_str();
        let lines = self.0.iter().filter(move |line| line.name.eq_ignore_ascii_case(name));
        lines.map(|line| line.value.trim_ascii())
    }
}

/// Value of a field, if it is present exactly once.
pub(crate) fn once<'a>(fields: &'a impl Fields, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = fields.values(name);
    values.next().filter(|_| values.next().is_none())
}

/// Value of a field, if it is present exactly once and is text.
pub fn only<'a>(fields: &'a impl Fields, name: &HeaderName) -> Option<&'a str> {
    let is_text = |byte: &u8| *byte == b'\t' || (b' '..=b'~').contains(byte);
    let value = once(fields, name).filter(|value| value.iter().all(is_text))?;
    std::str::from_utf8(value).ok()
}

/// All lines of a field as one list (RFC 9110 section 5.3).
pub fn joined(fields: &impl Fields, name: &HeaderName) -> Option<String> {
    let mut lines = fields.values(name).map(String::from_utf8_lossy);
    let mut list = lines.next()?.into_owned();
    lines.for_each(|line| list.extend([", ", &line]));
    Some(list)
}

/// Date of a field, in seconds since 1970, if it is present exactly once and is a date.
pub fn date_s(fields: &impl Fields, name: &HeaderName) -> Option<u64> {
    only(fields, name).and_then(parse_date_s)
}

/// Parses a date in any of the three forms of RFC 9110 section 5.6.7, in seconds since 1970; earlier dates
/// count as malformed.
pub(crate) fn parse_date_s(value: &str) -> Option<u64> {
    let date = httpdate::parse_http_date(value.trim()).ok()?;
    date.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Value of `Content-Length`.
///
/// # Errors
/// [`HeadError::BodyLength`] if the field is present twice or is not a number.
pub fn content_length(fields: &impl Fields) -> Result<Option<u64>, HeadError> {
    let mut values = fields.values(&header::CONTENT_LENGTH);
    let Some(value) = values.next() else { return Ok(None) };
    let digits = Some(value).filter(|value| value.iter().all(u8::is_ascii_digit));
    let length = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    if values.next().is_some() {
        Err(HeadError::BodyLength)
    } else {
        length.map(Some).ok_or(HeadError::BodyLength)
    }
}
