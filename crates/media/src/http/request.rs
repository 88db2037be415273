//! A request as a value that cannot be wrong: what RFC 9110 and RFC 9112 make of the fields of a head.

use super::condition::date_s;
use super::head::HeadError;
use super::{Accept, AssetPath, Conditions, IfRange, PathError, RangeSet, SKIPPED_BODY_LIMIT, TagList};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub method: Method,
    /// Of what.
    pub target: Target,
    /// The version the client speaks.
    pub version: Version,
    /// Whether the connection outlives the answer (RFC 9112 section 9.3). Never so when a body follows that is
    /// not going to be read.
    pub keep_alive: bool,
    /// The host and port the client wrote, from the target or the `Host` field; empty when there is none.
    pub host: String,
    /// The ranges asked for, when there is one `Range` field and it makes sense.
    pub range: Option<RangeSet>,
    /// The conditions under which to answer.
    pub conditions: Conditions,
    /// What the client accepts.
    pub accept: Accept,
    /// Length in bytes of the body that follows and is skipped by the reader of heads.
    pub(super) skipped_body_length: u64,
}

/// The methods of RFC 9110 section 9 and RFC 5789.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The file or the listing.
    Get,
    /// The head of the answer to GET.
    Head,
    /// What is allowed.
    Options,
    /// A method that is known and that nothing here allows: 405.
    Disallowed,
    /// An unknown method: 501.
    Unknown,
}

/// The forms of a request target (RFC 9112 section 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A path, from the origin form or the absolute form.
    Path(AssetPath),
    /// `*`, the server as a whole: OPTIONS only.
    Asterisk,
    /// The host and port of a CONNECT, which nothing here allows.
    Authority,
}

/// The versions spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

impl Request {
    pub(super) fn read(head: &httparse::Request<'_, '_>) -> Result<Self, HeadError> {
        let fields = Fields(head.headers);
        let method = Method::parse(head.method.unwrap_or_default());
        let version = if head.version == Some(0) { Version::Http10 } else { Version::Http11 };
        let (target, authority) = Target::parse(head.path.unwrap_or_default(), head.method)?;
        let host = fields.host(version)?;
        let body = fields.body()?;
        let skipped_body_length = match body {
            Body::Skipped(length) => length,
            Body::None | Body::Refused => 0,
        };
        Ok(Self {
            method,
            target,
            version,
            keep_alive: fields.keep_alive(version) && !matches!(body, Body::Refused),
            host: authority.unwrap_or(host).to_owned(),
            range: fields.only("range").and_then(RangeSet::parse),
            conditions: fields.conditions(),
            accept: fields.joined("accept").map_or_else(Accept::default, |value| Accept::parse(&value)),
            skipped_body_length,
        })
    }
}

impl Method {
    fn parse(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "OPTIONS" => Self::Options,
            "POST" | "PUT" | "DELETE" | "PATCH" | "TRACE" | "CONNECT" => Self::Disallowed,
            _ => Self::Unknown,
        }
    }
}

impl Target {
    /// The target, and the authority in it if it is in absolute form.
    fn parse<'a>(target: &'a str, method: Option<&str>) -> Result<(Self, Option<&'a str>), HeadError> {
        match (method, target) {
            (Some("CONNECT"), _) => Ok((Self::Authority, None)),
            (Some("OPTIONS"), "*") => Ok((Self::Asterisk, None)),
            _ => {
                let (authority, path) = split_absolute(target);
                if authority.is_some_and(|authority| !is_host(authority)) {
                    return Err(HeadError::Host);
                }
                Ok((Self::Path(AssetPath::decode(path)?), authority))
            }
        }
    }
}

impl From<PathError> for HeadError {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

/// `http://host/path` is `host` and `/path`; anything else is a path (RFC 9112 section 3.2.2).
fn split_absolute(target: &str) -> (Option<&str>, &str) {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let start = target.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &target[scheme.len()..])
    });
    let Some(rest) = rest else { return (None, target) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let path = if rest[end..].starts_with('/') { &rest[end..] } else { "/" };
    (Some(&rest[..end]), path)
}

/// Whether this can stand before a path as a host and port: no delimiter that would begin something else (RFC 3986
/// section 3.2). It is repeated in links, so it must be harmless.
fn is_host(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte))
}

/// What follows the head (RFC 9112 section 6).
enum Body {
    None,
    Skipped(u64),
    /// Too long to skip, of unknown length, or perhaps not sent at all (`Expect`): the connection ends instead.
    Refused,
}

/// The fields of a head; names are compared without case.
struct Fields<'h, 'b>(&'h [httparse::Header<'b>]);

impl<'b> Fields<'_, 'b> {
    fn lines(&self, name: &'static str) -> impl Iterator<Item = &'b [u8]> {
        let matching = self.0.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        matching.map(|header| header.value.trim_ascii())
    }

    /// The value of a field that may be given once only; several are as good as none.
    fn only(&self, name: &'static str) -> Option<&'b str> {
        let mut lines = self.lines(name);
        match (lines.next(), lines.next()) {
            (Some(value), None) => std::str::from_utf8(value).ok(),
            _ => None,
        }
    }

    /// The value of a field that is a list, all its lines together (RFC 9110 section 5.3).
    fn joined(&self, name: &'static str) -> Option<String> {
        let lines: Vec<_> = self.lines(name).map(String::from_utf8_lossy).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    }

    fn host(&self, version: Version) -> Result<&'b str, HeadError> {
        let mut lines = self.lines("host");
        match (lines.next(), lines.next(), version) {
            (Some(value), None, _) => {
                std::str::from_utf8(value).ok().filter(|host| is_host(host)).ok_or(HeadError::Host)
            }
            (None, None, Version::Http10) => Ok(""),
            _ => Err(HeadError::Host),
        }
    }

    fn keep_alive(&self, version: Version) -> bool {
        let options = self.joined("connection").unwrap_or_default();
        let has = |name| options.split(',').any(|option| option.trim().eq_ignore_ascii_case(name));
        !has("close") && (version == Version::Http11 || has("keep-alive"))
    }

    fn body(&self) -> Result<Body, HeadError> {
        let mut lengths = self.lines("content-length");
        let (length, second) = (lengths.next(), lengths.next());
        let encoded = self.lines("transfer-encoding").next().is_some();
        let expected = self.lines("expect").next().is_some();
        match (length, second, encoded) {
            (None, _, false) => Ok(Body::None),
            (None, _, true) => Ok(Body::Refused),
            (Some(length), None, false) => match body_length(length)? {
                0 => Ok(Body::None),
                length if length <= SKIPPED_BODY_LIMIT && !expected => Ok(Body::Skipped(length)),
                _ => Ok(Body::Refused),
            },
            // Two statements of the length are how requests are smuggled (RFC 9112 section 11.2).
            _ => Err(HeadError::BodyLength),
        }
    }

    fn conditions(&self) -> Conditions {
        Conditions {
            if_match: self.joined("if-match").map(|value| TagList::parse(&value)),
            if_unmodified_since_s: self.only("if-unmodified-since").and_then(date_s),
            if_none_match: self.joined("if-none-match").map(|value| TagList::parse(&value)),
            if_modified_since_s: self.only("if-modified-since").and_then(date_s),
            if_range: self.joined("if-range").map(|value| IfRange::parse(&value)),
        }
    }
}

fn body_length(value: &[u8]) -> Result<u64, HeadError> {
    let digits = std::str::from_utf8(value).map_err(|_| HeadError::BodyLength)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HeadError::BodyLength);
    }
    Ok(digits.parse().unwrap_or(u64::MAX))
}
