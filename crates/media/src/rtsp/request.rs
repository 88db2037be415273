//! Request line (RFC 2326 section 6), and refusals of invalid heads.

use super::headers::{BadLine, Headers};
use super::resource::{ResourceError, Target};
use crate::image::MAX_BURST_US;
use rtsp_types::{Method, StatusCode};

/// Header field of SETUP and its response: the longest burst that a client accepts, such as `20ms`.
pub const BURST_MAX: &str = "X-Burst-Max";

/// Longest request body, in bytes.
pub const BODY_LIMIT: usize = 64 * 1024;

/// Request with a valid request line, CSeq and length. Other headers are parsed on demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// Target.
    pub target: Target,
    /// Sequence number for the response (RFC 2326 section 12.17).
    pub cseq: u64,
    /// All header fields.
    pub headers: Headers,
    /// Body; empty if there is none.
    pub body: Vec<u8>,
}

/// Refusal of a client's request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {status}: {why}", u16::from(*.status))]
pub struct Refusal {
    /// Status of the response.
    pub status: StatusCode,
    /// Reason, with the place of the error and a remedy.
    pub why: String,
    /// CSeq of the request, if it could be read.
    pub cseq: Option<u64>,
    /// True if the end of the request is unknown, so that the connection is closed after the response.
    pub close: bool,
    /// Seconds after which the request may succeed (`Retry-After`), if they are known.
    pub retry_after_s: Option<u64>,
}

impl Refusal {
    /// Refusal after which the connection continues.
    pub fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), cseq: None, close: false, retry_after_s: None }
    }
}

impl Request {
    /// Session id (RFC 2326 section 12.37), without parameters.
    pub fn session(&self) -> Option<&str> {
        let value = self.headers.first("Session")?;
        Some(value.split(';').next().unwrap_or_default().trim())
    }

    /// Option tags of `Require` and `Proxy-Require` (RFC 2326 sections 12.27 and 12.32).
    pub fn required_options(&self) -> Vec<&str> {
        self.headers.list("Require").chain(self.headers.list("Proxy-Require")).collect()
    }

    /// Returns whether the client accepts this media type (RFC 2326 section 12.1). By default, all are
    /// accepted.
    pub fn accepts(&self, media_type: &str) -> bool {
        let mut ranges = self.headers.list("Accept").peekable();
        ranges.peek().is_none() || ranges.any(|range| media_range_holds(range, media_type))
    }

    /// Requested scale (RFC 2326 section 12.34).
    pub fn scale(&self) -> Result<Option<f64>, Refusal> {
        self.number("Scale")
    }

    /// Requested speed (RFC 2326 section 12.35).
    pub fn speed(&self) -> Result<Option<f64>, Refusal> {
        self.number("Speed")
    }

    /// Longest burst that the client accepts, in microseconds: `X-Burst-Max: 20ms`, a header field of
    /// Wirepath.
    pub fn burst_max_us(&self) -> Result<Option<u64>, Refusal> {
        let name = BURST_MAX;
        let Some(value) = self.headers.first(name) else { return Ok(None) };
        let ms = value.strip_suffix("ms").and_then(|ms| ms.parse::<u64>().ok());
        match ms.filter(|ms| (1..=u64::from(MAX_BURST_US) / 1000).contains(ms)) {
            Some(ms) => Ok(Some(ms * 1000)),
            None => {
                let why = format!("{name}: `{value}` is not a time from 1ms to {}ms", MAX_BURST_US / 1000);
                Err(Refusal::new(StatusCode::BadRequest, why))
            }
        }
    }

    fn number(&self, name: &str) -> Result<Option<f64>, Refusal> {
        let Some(value) = self.headers.first(name) else { return Ok(None) };
        match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(Refusal::new(StatusCode::BadRequest, format!("{name}: `{value}` is not a number"))),
        }
    }
}

fn media_range_holds(range: &str, media_type: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let refused = parts.any(|part| {
        let quality = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
        quality.is_some_and(|quality| quality.trim().parse::<f32>().is_ok_and(|quality| quality <= 0.0))
    });
    let family = media_type.split('/').next().unwrap_or_default();
    let holds = name == "*"
        || name == "*/*"
        || name.eq_ignore_ascii_case(media_type)
        || name.strip_suffix("/*").is_some_and(|known| known.eq_ignore_ascii_case(family));
    holds && !refused
}

/// Head with known framing. The rest is checked when the body is complete.
#[derive(Debug)]
pub(super) struct Head {
    line: String,
    headers: Headers,
    cseq: Option<u64>,
    pub(super) body_length: usize,
}

impl Head {
    pub(super) fn into_request(self, body: Vec<u8>) -> Result<Request, Refusal> {
        let parsed = parse_line(&self.line).and_then(|(method, target)| {
            let cseq = self.cseq.ok_or_else(|| missing_cseq(&self.headers))?;
            Ok((method, target, cseq))
        });
        match parsed {
            Ok((method, target, cseq)) => Ok(Request { method, target, cseq, headers: self.headers, body }),
            Err(refusal) => Err(Refusal { cseq: self.cseq, ..refusal }),
        }
    }
}

/// Parses a head without the empty line at its end. If this fails, framing is lost.
pub(super) fn parse_head(head: &[u8]) -> Result<Head, Refusal> {
    let lost = |why: String| Refusal { close: true, ..Refusal::new(StatusCode::BadRequest, why) };
    let mut lines = head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = lines.next().unwrap_or_default();
    // The last line has a line end, too, so an empty line follows.
    let lines = lines.filter(|line| !line.is_empty());
    let headers = Headers::parse(lines)
        .map_err(|BadLine(number)| lost(format!("line {number} is not `name: value`")))?;
    let cseq = headers.first("CSeq").and_then(|value| value.parse().ok());
    let body_length = body_length(&headers).map_err(|refusal| Refusal { cseq, ..refusal })?;
    // UTF-8 without escapes is common in URLs. Other bytes stay visible, and the URL's parser refuses them.
    Ok(Head { line: String::from_utf8_lossy(line).into_owned(), headers, cseq, body_length })
}

/// Body length (RFC 2326 section 12.14). Two different lengths are refused, because readers would disagree
/// about the next request.
fn body_length(headers: &Headers) -> Result<usize, Refusal> {
    let lost = |status, why| Refusal { close: true, ..Refusal::new(status, why) };
    let mut values = headers.all("Content-Length");
    let Some(value) = values.next() else { return Ok(0) };
    if values.any(|other| other != value) {
        return Err(lost(StatusCode::BadRequest, "Content-Length is given twice and differs".to_owned()));
    }
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(lost(
            StatusCode::BadRequest,
            format!("Content-Length: `{value}` is not a number of bytes"),
        ));
    }
    match value.parse() {
        Ok(length) if length <= BODY_LIMIT => Ok(length),
        _ => {
            let why = format!("Content-Length: {value} is more than {BODY_LIMIT} bytes");
            Err(lost(StatusCode::RequestMessageBodyTooLarge, why))
        }
    }
}

fn missing_cseq(headers: &Headers) -> Refusal {
    let why = match headers.first("CSeq") {
        Some(value) => format!("CSeq: `{value}` is not a number"),
        None => "there is no CSeq header".to_owned(),
    };
    Refusal::new(StatusCode::BadRequest, why)
}

/// Parses a request line. The URL is between the first and the last space, since ffmpeg and others do not
/// escape spaces.
fn parse_line(line: &str) -> Result<(Method, Target), Refusal> {
    let bad = |why: &str| Refusal::new(StatusCode::BadRequest, why);
    let line = line.trim_end();
    let (method, rest) = line.split_once([' ', '\t']).ok_or_else(|| bad("the request line has no URL"))?;
    let (url, version) =
        rest.rsplit_once([' ', '\t']).ok_or_else(|| bad("the request line has no version"))?;
    check_version(version)?;
    if !method.bytes().all(super::headers::is_token_byte) {
        return Err(bad("the method is not a token"));
    }
    let target = Target::parse(url.trim()).map_err(|error: ResourceError| bad(&error.to_string()))?;
    Ok((Method::from(method), target))
}

/// Checks the version: other versions of RTSP are not supported (RFC 2326 section 11.3.16), other protocols
/// are bad requests.
fn check_version(version: &str) -> Result<(), Refusal> {
    match version.get(..5) {
        Some(name) if name.eq_ignore_ascii_case("RTSP/") && &version[5..] == "1.0" => Ok(()),
        Some(name) if name.eq_ignore_ascii_case("RTSP/") => {
            let why = format!("{version} is not spoken here; use RTSP/1.0");
            Err(Refusal::new(StatusCode::RTSPVersionNotSupported, why))
        }
        _ => {
            let why = format!("`{version}` at the end of the request line is not RTSP/1.0");
            Err(Refusal::new(StatusCode::BadRequest, why))
        }
    }
}
