//! Answers as values, and their heads as bytes (RFC 9112 section 4).

use super::{Extent, Version};
use std::time::{Duration, UNIX_EPOCH};

/// The last second of the year 9999, the last one an HTTP date can tell.
const LAST_DATE_S: u64 = 253_402_300_799;

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: Status,
    /// Fields that belong to this answer; `Date`, `Content-Length` and `Connection` are added by
    /// [`head`](Self::head).
    pub headers: Vec<(&'static str, String)>,
    /// The body, part after part; empty for HEAD and for statuses without one.
    pub body: Vec<Part>,
    /// The length in bytes to announce, which for HEAD is not that of the body. None where the status forbids a
    /// body.
    pub content_length: Option<u64>,
}

/// A piece of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes made for this answer.
    Bytes(Vec<u8>),
    /// Bytes of the file.
    Extent(Extent),
}

macro_rules! statuses {
    ($($name:ident = $code:literal $reason:literal),* $(,)?) => {
        /// The statuses this server answers with (RFC 9110 section 15, RFC 6585).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "named as in the RFCs")]
        pub enum Status { $($name = $code),* }

        impl Status {
            /// The reason phrase.
            pub fn reason(self) -> &'static str {
                match self { $(Self::$name => $reason),* }
            }
        }
    };
}

statuses! {
    Ok = 200 "OK",
    NoContent = 204 "No Content",
    PartialContent = 206 "Partial Content",
    MovedPermanently = 301 "Moved Permanently",
    NotModified = 304 "Not Modified",
    BadRequest = 400 "Bad Request",
    Forbidden = 403 "Forbidden",
    NotFound = 404 "Not Found",
    MethodNotAllowed = 405 "Method Not Allowed",
    RequestTimeout = 408 "Request Timeout",
    LengthRequired = 411 "Length Required",
    PreconditionFailed = 412 "Precondition Failed",
    UriTooLong = 414 "URI Too Long",
    RangeNotSatisfiable = 416 "Range Not Satisfiable",
    HeadTooLarge = 431 "Request Header Fields Too Large",
    InternalServerError = 500 "Internal Server Error",
    NotImplemented = 501 "Not Implemented",
    BadGateway = 502 "Bad Gateway",
    ServiceUnavailable = 503 "Service Unavailable",
    GatewayTimeout = 504 "Gateway Timeout",
    VersionNotSupported = 505 "HTTP Version Not Supported",
    LoopDetected = 508 "Loop Detected",
}

impl Status {
    /// The number.
    pub fn code(self) -> u16 {
        self as u16
    }
}

impl Part {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Extent(extent) => extent.length,
        }
    }
}

impl Response {
    /// An answer without a body, and without a length: for statuses that forbid one.
    pub fn empty(status: Status) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), content_length: None }
    }

    /// An answer with a body.
    pub fn with_body(status: Status, content_type: &str, body: Vec<Part>) -> Self {
        let content_length = Some(body.iter().map(Part::length).sum());
        let headers =
            vec![("Content-Type", content_type.to_owned()), ("X-Content-Type-Options", "nosniff".to_owned())];
        Self { status, headers, body, content_length }
    }

    /// An answer that says in a sentence what is wrong.
    pub fn error(status: Status, explanation: &str) -> Self {
        let text = format!("{} {}: {explanation}\n", status.code(), status.reason());
        Self::with_body(status, "text/plain; charset=utf-8", vec![Part::Bytes(text.into_bytes())])
    }

    /// The answer with one more header. The value must not hold a line break.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The answer to HEAD where this is the one to GET (RFC 9110 section 9.3.2).
    #[must_use]
    pub fn without_body(mut self) -> Self {
        self.body.clear();
        self
    }

    /// Length in bytes of the body that is sent.
    pub fn body_length(&self) -> u64 {
        self.body.iter().map(Part::length).sum()
    }

    /// The head as it goes on the wire. The version is always ours (RFC 9110 section 2.5); the client's decides
    /// how to say whether the connection stays (RFC 9112 section 9.3).
    pub fn head(&self, client: Version, keep_alive: bool, now_s: u64) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status.code(), self.status.reason());
        let mut field = |name: &str, value: &str| {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        };
        field("Date", &http_date(now_s));
        for (name, value) in &self.headers {
            field(name, value);
        }
        if let Some(length) = self.content_length {
            field("Content-Length", &length.to_string());
        }
        match (keep_alive, client) {
            (false, _) => field("Connection", "close"),
            (true, Version::Http10) => field("Connection", "keep-alive"),
            (true, Version::Http11) => {}
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// A time in seconds since 1970 as an HTTP date (RFC 9110 section 5.6.7), at the latest in the year 9999.
pub fn http_date(time_s: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(time_s.min(LAST_DATE_S)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_heads() {
        let response = Response::error(Status::NotFound, "no such file");
        let head = String::from_utf8(response.head(Version::Http10, true, 0)).unwrap();
        assert_eq!(
            head,
            "HTTP/1.1 404 Not Found\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
             Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Length: 28\r\nConnection: keep-alive\r\n\r\n"
        );
        assert_eq!(response.body, [Part::Bytes(b"404 Not Found: no such file\n".to_vec())]);
        let closing = Response::empty(Status::NotModified).head(Version::Http11, false, u64::MAX);
        assert_eq!(
            String::from_utf8(closing).unwrap(),
            "HTTP/1.1 304 Not Modified\r\nDate: Fri, 31 Dec 9999 23:59:59 GMT\r\nConnection: close\r\n\r\n"
        );
    }
}
