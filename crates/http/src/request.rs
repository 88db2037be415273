//! Request to a server as a validated value: the meaning of a head by RFC 9110.

use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Version};

use crate::fields::{self, Fields};
use crate::head::{BorrowedHead, with_parsed};
use crate::{AssetPath, Conditions, HeadError, Listing, RangeSet, RequestHead};

/// Longest body in bytes that is skipped; after a longer body the connection is closed.
const SKIPPED_BODY_LIMIT: u64 = 64 * 1024;

/// Field of the two halves of an RTSP tunnel.
const SESSION_COOKIE: HeaderName = HeaderName::from_static("x-sessioncookie");

/// Relation of the origin of a browser's page to the requested host.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Request to a server of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// Target.
    pub target: Target,
    /// Query of the target as sent, without the question mark; empty without a query.
    pub query: String,
    /// Version of the client.
    pub version: Version,
    /// True if the connection outlives the response; false if a body follows that is not going to be read.
    pub keep_alive: bool,
    /// Host and port given by the client; empty if it gives none.
    pub host: String,
    /// Name of the client program (`User-Agent`).
    pub agent: Option<String>,
    /// Credentials (`Authorization`), as sent.
    pub authorization: Option<String>,
    /// Requested ranges, if there is exactly one valid `Range` field.
    pub range: Option<RangeSet>,
    /// Conditions of the response.
    pub conditions: Conditions,
    /// Form of listings that the client prefers.
    pub listing: Listing,
    /// Name that joins the two halves of an RTSP tunnel (`x-sessioncookie`, see `wirepath_media::rtsp`).
    pub session_cookie: Option<String>,
    /// Origin of the page in a browser that sends it (`Origin`).
    pub origin: Option<HeaderValue>,
    /// True if a page of another origin in a browser sent the request, by `Sec-Fetch-Site`, or else by
    /// `Origin` and the host.
    pub is_cross_origin: bool,
    /// True if a body follows that is too long to be read, of unknown length, or perhaps not sent at all.
    pub has_unread_body: bool,
    /// Length in bytes of the body that follows, if it is read or skipped.
    pub body_length: u64,
    /// True if the body is chunked ([`ChunkedReader`](crate::ChunkedReader)), without a length.
    pub is_chunked: bool,
    /// True if the client waits for `100 Continue` before it sends the body (RFC 9110 section 10.1.1).
    pub expects_continue: bool,
}

/// Forms of a request target (RFC 9112 section 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Path, from the origin form or the absolute form.
    Path(AssetPath),
    /// `*`, the whole server: OPTIONS only.
    Asterisk,
    /// Host and port of CONNECT, which file servers do not allow.
    Authority,
}

impl Request {
    /// Interprets a head.
    pub fn read(head: &RequestHead) -> Result<Self, HeadError> {
        Self::of(&head.borrowed())
    }

    /// Parses one complete head, as found by [`HeadReader`](crate::HeadReader); faster than parsing it as a
    /// [`RequestHead`] first.
    #[expect(
        clippy::redundant_closure,
        reason = "the function itself is not general over the lifetime of its lines"
    )]
    pub fn parse(head: &[u8]) -> Result<Self, HeadError> {
        with_parsed(head, |head| Self::of(head))
    }

    /// Returns whether this is a GET for the whole file, without range or conditions.
    pub fn is_plain_get(&self) -> bool {
        self.method == Method::GET && self.range.is_none() && self.conditions.is_empty()
    }

    fn of<F: Fields>(head: &BorrowedHead<'_, F>) -> Result<Self, HeadError> {
        let target = Target::of(head)?;
        let host = head.host()?.to_owned();
        let is_expected = head.fields.has(&header::EXPECT);
        // Too long to skip, of unknown length, or perhaps not sent at all: the connection is closed instead.
        let is_skippable = |&length: &u64| length == 0 || length <= SKIPPED_BODY_LIMIT && !is_expected;
        let length = head.body_length()?;
        let skipped = length.filter(is_skippable);
        Ok(Self {
            method: head.method.clone(),
            target,
            query: query(head.path()).to_owned(),
            version: head.version,
            keep_alive: head.keeps_alive() && skipped.is_some(),
            host,
            agent: fields::only(head.fields, &header::USER_AGENT).map(str::to_owned),
            authorization: authorization(head.fields),
            range: fields::only(head.fields, &header::RANGE).and_then(RangeSet::parse),
            conditions: Conditions::of(head.fields),
            listing: fields::joined(head.fields, &header::ACCEPT)
                .map_or(Listing::Html, |value| Listing::preferred(&value)),
            session_cookie: fields::only(head.fields, &SESSION_COOKIE).map(str::to_owned),
            origin: head.fields.values(&header::ORIGIN).next().and_then(origin),
            is_cross_origin: is_cross_origin(head),
            has_unread_body: skipped.is_none(),
            body_length: skipped.unwrap_or(0),
            is_chunked: length.is_none(),
            expects_continue: head.expects_continue(),
        })
    }
}

/// Value of `Authorization`, if it is present exactly once; user names are UTF-8.
fn authorization(fields: &impl Fields) -> Option<String> {
    let value = fields::once(fields, &header::AUTHORIZATION)?;
    std::str::from_utf8(value).ok().map(str::to_owned)
}

fn origin(value: &[u8]) -> Option<HeaderValue> {
    HeaderValue::from_bytes(value).ok()
}

/// Returns whether a page of another origin sent a request. Browsers report this by `Sec-Fetch-Site` (W3C
/// Fetch Metadata Request Headers, section 2.2) to trusted hosts, which is correct behind proxies too;
/// otherwise `Origin` must be equal to the requested host. A request with neither field was not sent by
/// a page.
fn is_cross_origin<F: Fields>(head: &BorrowedHead<'_, F>) -> bool {
    if let Some(site) = head.fields.values(&FETCH_SITE).next() {
        return site != b"same-origin" && site != b"none";
    }
    let Some(origin) = head.fields.values(&header::ORIGIN).next() else { return false };
    let host =
        std::str::from_utf8(origin).ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    !host.is_some_and(|host| head.host().is_ok_and(|asked| host.eq_ignore_ascii_case(asked)))
}

/// Query of a path (RFC 3986 section 3.4).
fn query(path: &str) -> &str {
    let path = path.split_once('#').map_or(path, |(path, _)| path);
    path.split_once('?').map_or("", |(_, query)| query)
}

impl Target {
    fn of<F: Fields>(head: &BorrowedHead<'_, F>) -> Result<Self, HeadError> {
        match (head.method, head.target) {
            (&Method::CONNECT, _) => Ok(Self::Authority),
            (&Method::OPTIONS, "*") => Ok(Self::Asterisk),
            (_, target) => {
                let path = head.path();
                let is_absolute = path.len() != target.len();
                let path = if is_absolute && !path.starts_with('/') { "/" } else { path };
                Ok(Self::Path(AssetPath::decode(path)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::query;

    #[test]
    fn a_query_is_between_question_mark_and_fragment() {
        for (path, expected) in
            [("/a", ""), ("/a?", ""), ("/a?b=c&d", "b=c&d"), ("/a?b?c#d?e", "b?c"), ("/a#b?c", "")]
        {
            assert_eq!(query(path), expected, "{path}");
        }
    }
}
