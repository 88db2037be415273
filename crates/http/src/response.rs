//! Responses as values, and their heads as bytes (RFC 9112 section 4).

use std::cell::Cell;
use std::time::{Duration, UNIX_EPOCH};

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode, Version};

use crate::Extent;
use crate::head::HeadWriter;

/// Initial capacity for fields of a response.
const USUAL_FIELDS: usize = 8;

/// Last second of the year 9999, the latest possible HTTP date.
const LAST_DATE_S: u64 = 253_402_300_799;

/// Response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status.
    pub status: StatusCode,
    /// Fields of this response; `Date`, `Content-Length` and `Connection` are added by
    /// [`head`](Self::head).
    pub headers: HeaderMap,
    /// Body, part after part; empty for HEAD and for statuses without a body.
    pub body: Vec<BodyPart>,
    /// Length in bytes to announce; for HEAD it differs from the body's. `None` if the status forbids a body.
    pub content_length: Option<u64>,
}

/// Part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPart {
    /// Bytes made for this response.
    Bytes(Vec<u8>),
    /// Bytes of the file.
    Extent(Extent),
}

impl BodyPart {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Extent(extent) => extent.length,
        }
    }
}

impl Response {
    /// Response without a body and length, for statuses that forbid a body.
    pub fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: HeaderMap::with_capacity(USUAL_FIELDS),
            body: Vec::new(),
            content_length: None,
        }
    }

    /// Response with a body.
    pub fn with_body(status: StatusCode, content_type: &str, body: Vec<BodyPart>) -> Self {
        let content_length = Some(body.iter().map(BodyPart::length).sum());
        Self { body, content_length, ..Self::empty(status) }
            .header(header::CONTENT_TYPE, content_type)
            .fixed_header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
    }

    /// Response that explains an error in one sentence.
    pub fn error(status: StatusCode, explanation: &str) -> Self {
        let text = format!("{status}: {explanation}\n");
        Self::with_body(status, "text/plain; charset=utf-8", vec![BodyPart::Bytes(text.into_bytes())])
    }

    /// Adds a field. A value with control characters is left out.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.append(name, value);
        }
        self
    }

    /// Adds a field whose value needs no allocation.
    ///
    /// # Panics
    /// If the value has control characters.
    #[must_use]
    pub fn fixed_header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.append(name, HeaderValue::from_static(value));
        self
    }

    /// Response to HEAD, if this is the response to GET (RFC 9110 section 9.3.2).
    #[must_use]
    pub fn without_body(mut self) -> Self {
        self.body.clear();
        self
    }

    /// Length in bytes of the body to send.
    pub fn body_length(&self) -> u64 {
        self.body.iter().map(BodyPart::length).sum()
    }

    /// Formats the head. The fields about the connection depend on the client's version (RFC 9112 section
    /// 9.3).
    pub fn head(&self, client: Version, keep_alive: bool, now_s: u64) -> Vec<u8> {
        self.head_with_room(client, keep_alive, now_s, 0)
    }

    /// Formats the head and a body without extents.
    pub fn into_bytes(self, client: Version, keep_alive: bool, now_s: u64) -> Vec<u8> {
        let mut bytes = self.head_with_room(client, keep_alive, now_s, self.body_length() as usize);
        for part in &self.body {
            match part {
                BodyPart::Bytes(part) => bytes.extend_from_slice(part),
                BodyPart::Extent(_) => unreachable!("extents are sent from their file"),
            }
        }
        bytes
    }

    /// Head, with capacity for `room` bytes after it.
    fn head_with_room(&self, client: Version, keep_alive: bool, now_s: u64, room: usize) -> Vec<u8> {
        let mut head = HeadWriter::of_response(self.status, room);
        head.field(&header::DATE, &date_now(now_s));
        let is_stated = |name| self.content_length.is_some() && name == header::CONTENT_LENGTH;
        for (name, value) in self.headers.iter().filter(|(name, _)| !is_stated(*name)) {
            head.field(name, value.as_bytes());
        }
        end_head(head, self.content_length, client, keep_alive)
    }
}

/// Appends the end of a head: the fields that all responses have, and an empty line. The fields about the
/// connection depend on the client's version (RFC 9112 section 9.3).
pub(crate) fn end_head(
    mut head: HeadWriter,
    length: Option<u64>,
    client: Version,
    keep_alive: bool,
) -> Vec<u8> {
    if let Some(length) = length {
        head.field(&header::CONTENT_LENGTH, length.to_string().as_bytes());
    }
    match (keep_alive, client) {
        (false, _) => head.field(&header::CONNECTION, b"close"),
        (true, Version::HTTP_10) => head.field(&header::CONNECTION, b"keep-alive"),
        (true, _) => {}
    }
    head.end()
}

thread_local! {
    /// Second and date of the thread's last response: formatting a date costs more than the rest of a head.
    static LAST_DATE: Cell<(u64, [u8; DATE_BYTES])> = const { Cell::new((u64::MAX, [0; DATE_BYTES])) };
}

/// Length of an HTTP date.
const DATE_BYTES: usize = 29;

/// Value of `Date`.
pub(crate) fn date_now(now_s: u64) -> [u8; DATE_BYTES] {
    let (second, mut date) = LAST_DATE.get();
    if second != now_s {
        date.copy_from_slice(http_date(now_s).as_bytes());
        LAST_DATE.set((now_s, date));
    }
    date
}

/// Formats a time in seconds since 1970 as an HTTP date (RFC 9110 section 5.6.7); times after the year 9999
/// saturate.
pub fn http_date(time_s: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(time_s.min(LAST_DATE_S)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_heads() {
        let response = Response::error(StatusCode::NOT_FOUND, "no such file");
        let head = String::from_utf8(response.head(Version::HTTP_10, true, 0)).unwrap();
        assert_eq!(
            head,
            "HTTP/1.1 404 Not Found\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
             Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Length: 28\r\nConnection: keep-alive\r\n\r\n"
        );
        assert_eq!(response.body, [BodyPart::Bytes(b"404 Not Found: no such file\n".to_vec())]);
        let closing = Response::empty(StatusCode::NOT_MODIFIED).head(Version::HTTP_11, false, u64::MAX);
        assert_eq!(
            String::from_utf8(closing).unwrap(),
            "HTTP/1.1 304 Not Modified\r\nDate: Fri, 31 Dec 9999 23:59:59 GMT\r\nConnection: close\r\n\r\n"
        );
    }
}
