//! Heads of messages that pass through (RFC 9112): every field is kept, but for those that concern one connection only.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use wirepath_media::http::{HEADER_LIMIT, HeadError, Status, Version};

/// Fields of one connection, not of the message (RFC 9110 section 7.6.1).
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What says where a body ends, what it is and who may have it. It is for all who handle a message, and `Connection` cannot take it away.
const OF_THE_MESSAGE: &[&str] = &[
    "age",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "expires",
    "set-cookie",
    "vary",
];

/// What asks for less than the whole, and is answered by whoever has that.
const FOR_LESS: [HeaderName; 4] =
    [header::RANGE, header::IF_RANGE, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE];

/// What `Via` calls us (RFC 9110 section 7.6.3).
const VIA: HeaderValue = HeaderValue::from_static("1.1 wirepath");

/// A request of a client.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: Method,
    /// What the origin is asked for: a path, perhaps with a query, or `*`.
    pub(super) target: String,
    pub(super) version: Version,
    /// Whether the connection outlives the answer.
    pub(super) keep_alive: bool,
    /// The fields that go on to the origin, and no `Host`. Lines of one name are one line: what varies with them compares only one.
    pub(super) fields: HeaderMap,
    /// Bytes of the body that follows.
    pub(super) body_bytes: u64,
    /// The client sends the body when it is told to (RFC 9110 section 10.1.1).
    pub(super) expects_continue: bool,
}

/// An answer of the origin.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) status: StatusCode,
    /// The fields that go on to the client. Lines of one name are one line, but for `Set-Cookie`.
    pub(super) fields: HeaderMap,
    /// Bytes of the body; None if it ends with the connection.
    pub(super) body_bytes: Option<u64>,
}

/// Why a message cannot be passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub(super) struct Refusal {
    pub(super) status: Status,
    pub(super) words: String,
}

impl Refusal {
    pub(super) fn new(status: Status, words: impl Into<String>) -> Refusal {
        Refusal { status, words: words.into() }
    }
}

impl From<HeadError> for Refusal {
    fn from(error: HeadError) -> Refusal {
        Refusal::new(error.status(), error.to_string())
    }
}

impl Asked {
    /// Reads the head of a request.
    pub(super) fn read(head: &[u8]) -> Result<Asked, Refusal> {
        let mut lines = [httparse::EMPTY_HEADER; HEADER_LIMIT];
        let mut request = httparse::Request::new(&mut lines);
        match request.parse(head) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Ok(_) => return Err(HeadError::Malformed(httparse::Error::NewLine).into()),
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyFields.into()),
            Err(httparse::Error::Version) => return Err(HeadError::Version.into()),
            Err(error) => return Err(HeadError::Malformed(error).into()),
        }
        let version = if request.version == Some(0) { Version::Http10 } else { Version::Http11 };
        let method = Method::from_bytes(request.method.unwrap_or_default().as_bytes())
            .map_err(|_| HeadError::Malformed(httparse::Error::Token))?;
        let target = target(&method, request.path.unwrap_or_default())?;
        let mut fields = fields(request.headers)?;
        check_host(&fields, version)?;
        let body_bytes = body_bytes(&fields)?;
        let keep_alive = keeps_alive(&fields, version);
        let expects = fields.remove(header::EXPECT);
        // Of HTTP/1.0 it means nothing (RFC 9110 section 10.1.1).
        let expects_continue = version == Version::Http11
            && expects.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        fields.remove(header::HOST);
        fields.remove(header::CONTENT_LENGTH);
        end_to_end(&mut fields);
        let fields = folded(fields);
        Ok(Asked { method, target, version, keep_alive, fields, body_bytes, expects_continue })
    }

    /// Whether a part is wanted, or only what is new.
    pub(super) fn is_for_less(&self) -> bool {
        FOR_LESS.iter().any(|name| self.fields.contains_key(name))
    }

    /// What asks for all of it.
    pub(super) fn for_the_whole(&self) -> Asked {
        let mut fields = self.fields.clone();
        FOR_LESS.iter().for_each(|name| drop(fields.remove(name)));
        Asked { method: Method::GET, target: self.target.clone(), fields, ..*self }
    }
}

impl Told {
    /// Reads the head of the answer to a request of this method; None if it is not all there. Answers how long it is.
    pub(super) fn read(bytes: &[u8], method: &Method) -> Result<Option<(Told, usize)>, Refusal> {
        let bad = |words: &str| {
            Refusal::new(Status::BadGateway, format!("the origin's answer cannot be read: {words}"))
        };
        let mut lines = [httparse::EMPTY_HEADER; HEADER_LIMIT];
        let mut response = httparse::Response::new(&mut lines);
        let length = match response.parse(bytes).map_err(|error| bad(&error.to_string()))? {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial => return Ok(None),
        };
        let status =
            StatusCode::from_u16(response.code.unwrap_or_default()).map_err(|_| bad("its status"))?;
        let mut fields = fields(response.headers).map_err(|_| bad("a field"))?;
        let has_body = *method != Method::HEAD && !status.is_informational() && !is_bodiless(status);
        if has_body && fields.contains_key(header::TRANSFER_ENCODING) {
            return Err(bad("it is chunked, though it was asked for in HTTP/1.0"));
        }
        let stated = length_of(&fields).map_err(|_| bad("its length is not stated once and as a number"))?;
        let body_bytes = if has_body { stated } else { Some(0) };
        end_to_end(&mut fields);
        if status == StatusCode::NO_CONTENT {
            fields.remove(header::CONTENT_LENGTH); // RFC 9110 section 8.6
        }
        Ok(Some((Told { status, fields: folded(fields), body_bytes }, length)))
    }
}

/// Whether an answer of this status has no body, and states no length (RFC 9110 section 6.4.1).
pub(super) fn is_bodiless(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Writes a status or request line and fields as they go on the wire.
pub(super) fn write(first_line: &str, fields: &HeaderMap) -> Vec<u8> {
    let mut head = Vec::with_capacity(1024);
    head.extend_from_slice(first_line.as_bytes());
    head.extend_from_slice(b"\r\n");
    for (name, value) in fields {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The first line of an answer. The version is always ours (RFC 9110 section 2.5).
pub(super) fn status_line(status: StatusCode) -> String {
    format!("HTTP/1.1 {} {}", status.as_u16(), status.canonical_reason().unwrap_or("-"))
}

/// Says by whom the message came.
pub(super) fn add_via(fields: &mut HeaderMap) {
    fields.append(header::VIA, VIA);
}

/// The field's value as text, if it is there once and is text.
pub(super) fn only<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = fields.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// All lines of a field as one list (RFC 9110 section 5.3).
pub(super) fn joined(fields: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<_> =
        fields.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// The path and query of any form of target (RFC 9112 section 3.2).
fn target(method: &Method, target: &str) -> Result<String, Refusal> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let start = target.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &target[scheme.len()..])
    });
    let path = match rest {
        Some(rest) => &rest[rest.find(['/', '?']).unwrap_or(rest.len())..],
        None => target,
    };
    match path {
        _ if *method == Method::CONNECT => Err(Refusal::new(Status::NotImplemented, "this is no tunnel")),
        "*" if *method == Method::OPTIONS => Ok("*".to_owned()),
        "" => Ok("/".to_owned()),
        path if path.starts_with('/') => Ok(path.to_owned()),
        path if path.starts_with('?') => Ok(format!("/{path}")),
        _ => Err(Refusal::new(Status::BadRequest, "the target does not begin with a slash")),
    }
}

fn fields(lines: &[httparse::Header<'_>]) -> Result<HeaderMap, HeadError> {
    let malformed = |error| HeadError::Malformed(error);
    let mut fields = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes())
            .map_err(|_| malformed(httparse::Error::HeaderName))?;
        let value = HeaderValue::from_bytes(line.value.trim_ascii());
        fields.append(name, value.map_err(|_| malformed(httparse::Error::HeaderValue))?);
    }
    Ok(fields)
}

/// HTTP/1.1 has one `Host` (RFC 9112 section 3.2), though the origin gets another.
fn check_host(fields: &HeaderMap, version: Version) -> Result<(), HeadError> {
    match (fields.get_all(header::HOST).iter().count(), version) {
        (1, _) | (0, Version::Http10) => Ok(()),
        _ => Err(HeadError::Host),
    }
}

/// Two statements of a length are how requests are smuggled (RFC 9112 section 11.2).
fn body_bytes(fields: &HeaderMap) -> Result<u64, Refusal> {
    let stated = length_of(fields)?;
    if fields.contains_key(header::TRANSFER_ENCODING) {
        if stated.is_some() {
            return Err(HeadError::BodyLength.into());
        }
        let words = "bodies go to the origin in HTTP/1.0: send a Content-Length and no Transfer-Encoding";
        return Err(Refusal::new(Status::LengthRequired, words));
    }
    Ok(stated.unwrap_or(0))
}

fn length_of(fields: &HeaderMap) -> Result<Option<u64>, HeadError> {
    let mut values = fields.get_all(header::CONTENT_LENGTH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let digits =
        value.to_str().ok().filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|digits| digits.parse().ok()).ok_or(HeadError::BodyLength)?;
    if values.next().is_some() { Err(HeadError::BodyLength) } else { Ok(Some(length)) }
}

fn keeps_alive(fields: &HeaderMap, version: Version) -> bool {
    let options = joined(fields, &header::CONNECTION).unwrap_or_default();
    let has = |name| options.split(',').any(|option| option.trim().eq_ignore_ascii_case(name));
    !has("close") && (version == Version::Http11 || has("keep-alive"))
}

/// Leaves out what concerns one connection.
fn end_to_end(fields: &mut HeaderMap) {
    let named = joined(fields, &header::CONNECTION).unwrap_or_default().to_ascii_lowercase();
    let named = named.split(',').map(str::trim).filter(|name| !OF_THE_MESSAGE.contains(name));
    for name in named.chain(HOP_BY_HOP.iter().copied()) {
        fields.remove(name);
    }
}

/// All lines of a name as one, but for `Set-Cookie` (RFC 9110 section 5.3).
pub(super) fn folded(fields: HeaderMap) -> HeaderMap {
    let mut one_line_each = HeaderMap::with_capacity(fields.keys_len());
    for name in fields.keys() {
        let mut lines = fields.get_all(name).iter();
        if *name == header::SET_COOKIE || lines.size_hint().1 == Some(1) {
            one_line_each.extend(lines.map(|line| (name.clone(), line.clone())));
            continue;
        }
        let first = lines.next().map(|line| line.as_bytes().to_vec()).unwrap_or_default();
        let between: &[u8] = if *name == header::COOKIE { b"; " } else { b", " }; // RFC 9113 section 8.2.3
        let all = lines.fold(first, |all, line| [&all, between, line.as_bytes()].concat());
        // Values and what is between them are valid, so the list is.
        HeaderValue::from_bytes(&all).into_iter().for_each(|all| drop(one_line_each.insert(name, all)));
    }
    one_line_each
}

#[cfg(test)]
mod tests;
