//! Heads of requests and responses as values (RFC 9112 sections 2 to 6).

use std::mem::MaybeUninit;

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};

use crate::error::{HEADER_LIMIT, HeadError};
use crate::fields::{self, Fields, ParsedLines};

/// Initial capacity of a head in bytes.
const USUAL_HEAD_BYTES: usize = 512;

/// Head of a request: the request line and all fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Method.
    pub method: Method,
    /// Request target as sent.
    pub target: String,
    /// Version of the client.
    pub version: Version,
    /// Fields.
    pub fields: HeaderMap,
}

/// Head of a response: the status line and all fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status.
    pub status: StatusCode,
    /// Version of the server.
    pub version: Version,
    /// Fields.
    pub fields: HeaderMap,
}

impl RequestHead {
    /// Parses one complete head, as found by [`HeadReader`](crate::HeadReader).
    pub fn parse(head: &[u8]) -> Result<RequestHead, HeadError> {
        with_parsed(head, |head| {
            Ok(RequestHead {
                method: head.method.clone(),
                target: head.target.to_owned(),
                version: head.version,
                fields: read_fields(head.fields.0)?,
            })
        })
    }

    /// Host and port given by the client: in the target, or else in the single `Host` that HTTP/1.1 requires
    /// (RFC 9112 section 3.2). Empty if an HTTP/1.0 client gives none.
    pub fn host(&self) -> Result<&str, HeadError> {
        self.borrowed().host()
    }

    /// Path and query of the target: `http://host/path?query` requests `/path?query` (RFC 9112 section
    /// 3.2.2).
    pub fn path(&self) -> &str {
        split_target(&self.target).1
    }

    /// Returns whether the connection outlives the response (RFC 9112 section 9.3).
    pub fn keeps_alive(&self) -> bool {
        keeps_alive(self.version, &self.fields)
    }

    /// Length in bytes of the body that follows; `None` if only its transfer coding determines it.
    ///
    /// # Errors
    /// [`HeadError::BodyLength`] for two lengths, as in request smuggling (RFC 9112 section 11.2).
    pub fn body_length(&self) -> Result<Option<u64>, HeadError> {
        self.borrowed().body_length()
    }

    /// Returns whether the client waits for `100 Continue` before it sends a body (RFC 9110 section 10.1.1).
    /// An expectation in HTTP/1.0 is ignored.
    pub fn expects_continue(&self) -> bool {
        self.borrowed().expects_continue()
    }

    pub(crate) fn borrowed(&self) -> BorrowedHead<'_, HeaderMap> {
        let RequestHead { method, target, version, fields } = self;
        BorrowedHead { method, target, version: *version, fields }
    }
}

/// Head of a request, borrowed from the buffer it was read into.
pub(crate) struct BorrowedHead<'a, F> {
    pub(crate) method: &'a Method,
    pub(crate) target: &'a str,
    pub(crate) version: Version,
    pub(crate) fields: &'a F,
}

impl<'a, F: Fields> BorrowedHead<'a, F> {
    /// See [`RequestHead::host`].
    pub(crate) fn host(&self) -> Result<&'a str, HeadError> {
        let field = match self.version {
            Version::HTTP_10 if !self.fields.has(&header::HOST) => "",
            _ => fields::only(self.fields, &header::HOST).ok_or(HeadError::Host)?,
        };
        let host = split_target(self.target).0.unwrap_or(field);
        if is_host(host) && is_host(field) { Ok(host) } else { Err(HeadError::Host) }
    }

    /// See [`RequestHead::path`].
    pub(crate) fn path(&self) -> &'a str {
        split_target(self.target).1
    }

    /// See [`RequestHead::keeps_alive`].
    pub(crate) fn keeps_alive(&self) -> bool {
        keeps_alive(self.version, self.fields)
    }

    /// See [`RequestHead::body_length`].
    pub(crate) fn body_length(&self) -> Result<Option<u64>, HeadError> {
        let stated = fields::content_length(self.fields)?;
        match (stated, self.fields.has(&header::TRANSFER_ENCODING)) {
            (Some(_), true) => Err(HeadError::BodyLength),
            (None, true) => Ok(None),
            (stated, false) => Ok(Some(stated.unwrap_or(0))),
        }
    }

    /// See [`RequestHead::expects_continue`].
    pub(crate) fn expects_continue(&self) -> bool {
        let expected = self.fields.values(&header::EXPECT).next();
        self.version == Version::HTTP_11
            && expected.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"))
    }
}

/// Parses one complete head and passes it to `use_head`.
pub(crate) fn with_parsed<T>(
    head: &[u8],
    use_head: impl FnOnce(&BorrowedHead<'_, ParsedLines<'_>>) -> Result<T, HeadError>,
) -> Result<T, HeadError> {
    let mut lines = [const { MaybeUninit::uninit() }; HEADER_LIMIT];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(head, &mut lines) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        // The head ends at its first empty line, so a parser that finds another end has parsed something
        // else.
        Ok(_) => return Err(HeadError::Malformed(httparse::Error::NewLine)),
        Err(error) => return Err(error.into()),
    }
    let method = Method::from_bytes(request.method.unwrap_or_default().as_bytes());
    use_head(&BorrowedHead {
        method: &method.map_err(|_| HeadError::Malformed(httparse::Error::Token))?,
        target: request.path.unwrap_or_default(),
        version: version(request.version),
        fields: &ParsedLines(request.headers),
    })
}

fn split_target(target: &str) -> (Option<&str>, &str) {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let start = target.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &target[scheme.len()..])
    });
    let Some(rest) = rest else { return (None, target) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    (Some(&rest[..end]), &rest[end..])
}

impl ResponseHead {
    /// Parses the head at the beginning of `bytes`, and returns it with its length; `None` if it is
    /// incomplete.
    pub fn parse(bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, HeadError> {
        let mut lines = [httparse::EMPTY_HEADER; HEADER_LIMIT];
        let mut response = httparse::Response::new(&mut lines);
        let httparse::Status::Complete(length) = response.parse(bytes)? else { return Ok(None) };
        let status = StatusCode::from_u16(response.code.unwrap_or_default());
        let head = ResponseHead {
            status: status.map_err(|_| HeadError::Malformed(httparse::Error::Status))?,
            version: version(response.version),
            fields: read_fields(response.headers)?,
        };
        Ok(Some((head, length)))
    }

    /// Returns whether the connection outlives the response (RFC 9112 section 9.3).
    pub fn keeps_alive(&self) -> bool {
        keeps_alive(self.version, &self.fields)
    }
}

fn version(minor: Option<u8>) -> Version {
    if minor == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 }
}

fn keeps_alive(version: Version, fields: &impl Fields) -> bool {
    let options = || fields.values(&header::CONNECTION).flat_map(|line| line.split(|&byte| byte == b','));
    let has = |name: &[u8]| options().any(|option| option.trim_ascii().eq_ignore_ascii_case(name));
    !has(b"close") && (version == Version::HTTP_11 || has(b"keep-alive"))
}

/// Formats a request or status line and fields as sent on the wire.
pub fn write_head(first_line: &str, fields: &HeaderMap) -> Vec<u8> {
    let mut head = HeadWriter::new(first_line);
    for (name, value) in fields {
        head.field(name, value.as_bytes());
    }
    head.end()
}

/// Writer of a head, or of lines of a head.
#[derive(Default)]
pub(crate) struct HeadWriter(Vec<u8>);

impl HeadWriter {
    /// Head with this first line.
    fn new(first_line: &str) -> Self {
        Self::with_parts([first_line], 0)
    }

    /// Head of a response with this status, with capacity for `room` bytes of a body.
    pub(crate) fn of_response(status: StatusCode, room: usize) -> Self {
        Self::with_parts(status_parts(&status), room)
    }

    fn with_parts<const N: usize>(first_line: [&str; N], room: usize) -> Self {
        let mut head = Vec::with_capacity(USUAL_HEAD_BYTES + room);
        first_line.iter().for_each(|part| head.extend_from_slice(part.as_bytes()));
        head.extend_from_slice(b"\r\n");
        Self(head)
    }

    /// Writes a field.
    pub(crate) fn field(&mut self, name: &HeaderName, value: &[u8]) {
        extend_with_name(&mut self.0, name);
        self.0.extend_from_slice(b": ");
        self.0.extend_from_slice(value);
        self.0.extend_from_slice(b"\r\n");
    }

    /// Appends lines that were formatted before.
    pub(crate) fn lines(&mut self, lines: &[u8]) {
        self.0.extend_from_slice(lines);
    }

    /// Lines without the empty line at the end.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Complete head, with the empty line that ends it.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"\r\n");
        self.0
    }
}

/// Appends a field name in its usual spelling, such as `Content-Length`: readers must ignore case (RFC 9110
/// section 5.1), but scripts that search for names often do not.
fn extend_with_name(head: &mut Vec<u8>, name: &HeaderName) {
    if name == header::ETAG {
        return head.extend_from_slice(b"ETag");
    }
    let start = head.len();
    head.extend_from_slice(name.as_str().as_bytes());
    let mut begins_word = true;
    for byte in &mut head[start..] {
        if begins_word {
            byte.make_ascii_uppercase();
        }
        begins_word = *byte == b'-';
    }
}

/// Status line of a response. The version is always that of the server (RFC 9110 section 2.5).
pub fn status_line(status: StatusCode) -> String {
    status_parts(&status).concat()
}

fn status_parts(status: &StatusCode) -> [&str; 4] {
    ["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason().unwrap_or("-")]
}

fn read_fields(lines: &[httparse::Header<'_>]) -> Result<HeaderMap, HeadError> {
    let mut fields = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes())
            .map_err(|_| HeadError::Malformed(httparse::Error::HeaderName))?;
        let value = HeaderValue::from_bytes(line.value.trim_ascii())
            .map_err(|_| HeadError::Malformed(httparse::Error::HeaderValue))?;
        fields.append(name, value);
    }
    Ok(fields)
}

/// Returns whether a value is usable as host and port before a path: it has no delimiter that would begin
/// another part of a URL (RFC 3986 section 3.2). The value is repeated in links, so it must be harmless.
fn is_host(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte))
}
