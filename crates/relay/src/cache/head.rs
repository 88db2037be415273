//! Heads of messages that pass through (RFC 9112). Every header field is kept, except the fields that concern
//! a single connection.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use wirepath_http::fields::{content_length, joined};
use wirepath_http::{HeadError, RequestHead, ResponseHead};

/// Header fields of a connection, not of the message (RFC 9110 section 7.6.1).
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

/// Header fields for the length, type and use of a body. `Connection` cannot remove them.
const END_TO_END: &[&str] = &[
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

/// Request header fields that ask for less than the whole resource. A cache that has the whole resource
/// handles them itself.
const PARTIAL: [HeaderName; 4] =
    [header::RANGE, header::IF_RANGE, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE];

/// Name of this cache in `Via` (RFC 9110 section 7.6.3).
const VIA: HeaderValue = HeaderValue::from_static("1.1 wirepath");

/// Request of a client.
#[derive(Debug)]
pub(super) struct ClientRequest {
    pub(super) method: Method,
    /// Target for the origin: a path with an optional query, or `*`.
    pub(super) target: String,
    pub(super) version: Version,
    /// True if the connection outlives the response.
    pub(super) keep_alive: bool,
    /// Header fields for the origin, without `Host`. Lines with the same name are joined into one line, since
    /// `Vary` compares only one line.
    pub(super) fields: HeaderMap,
    pub(super) body_bytes: u64,
    /// True if the client sends the body only after `100 Continue`.
    pub(super) expects_continue: bool,
}

/// Response of the origin.
#[derive(Debug)]
pub(super) struct OriginResponse {
    pub(super) status: StatusCode,
    /// Header fields for the client. Lines with the same name are joined into one line, except `Set-Cookie`.
    pub(super) fields: HeaderMap,
    /// Length of the body; None if the body ends with the connection.
    pub(super) body_bytes: Option<u64>,
}

/// Reason why a message is not forwarded, with the status of the response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) words: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, words: impl Into<String>) -> Refusal {
        Refusal { status, words: words.into() }
    }
}

impl From<HeadError> for Refusal {
    fn from(error: HeadError) -> Refusal {
        Refusal::new(error.status(), error.to_string())
    }
}

impl ClientRequest {
    /// Prepares a request for the origin; refuses CONNECT and bodies of unknown length.
    pub(super) fn new(head: RequestHead) -> Result<ClientRequest, Refusal> {
        let target = target(&head)?;
        head.host()?;
        let Some(body_bytes) = head.body_length()? else {
            let words = "bodies go to the origin in HTTP/1.0: send Content-Length and no Transfer-Encoding";
            return Err(Refusal::new(StatusCode::LENGTH_REQUIRED, words));
        };
        let (keep_alive, expects_continue) = (head.keeps_alive(), head.expects_continue());
        let RequestHead { method, version, mut fields, .. } = head;
        for name in [header::HOST, header::CONTENT_LENGTH, header::EXPECT] {
            fields.remove(name);
        }
        remove_hop_by_hop(&mut fields);
        let fields = fold(fields);
        Ok(ClientRequest { method, target, version, keep_alive, fields, body_bytes, expects_continue })
    }

    #[cfg(test)]
    pub(super) fn read(head: &[u8]) -> Result<ClientRequest, Refusal> {
        ClientRequest::new(RequestHead::parse(head)?)
    }

    /// Returns whether the request is for a part, or conditional.
    pub(super) fn is_partial(&self) -> bool {
        PARTIAL.iter().any(|name| self.fields.contains_key(name))
    }

    /// The same request for the whole resource, without conditions.
    pub(super) fn for_the_whole(&self) -> ClientRequest {
        let mut fields = self.fields.clone();
        PARTIAL.iter().for_each(|name| drop(fields.remove(name)));
        ClientRequest { method: Method::GET, target: self.target.clone(), fields, ..*self }
    }
}

impl OriginResponse {
    /// Takes the head of the response to a request with this method.
    pub(super) fn new(head: ResponseHead, method: &Method) -> Result<OriginResponse, Refusal> {
        let ResponseHead { status, mut fields, .. } = head;
        let has_body = *method != Method::HEAD && !status.is_informational() && !is_bodiless(status);
        if has_body && fields.contains_key(header::TRANSFER_ENCODING) {
            return Err(invalid(&"chunked, though the request was HTTP/1.0"));
        }
        let stated = content_length(&fields).map_err(|error| invalid(&error))?;
        let body_bytes = if has_body { stated } else { Some(0) };
        remove_hop_by_hop(&mut fields);
        if status == StatusCode::NO_CONTENT {
            fields.remove(header::CONTENT_LENGTH); // RFC 9110 section 8.6
        }
        Ok(OriginResponse { status, fields: fold(fields), body_bytes })
    }

    #[cfg(test)]
    pub(super) fn read(bytes: &[u8], method: &Method) -> Result<Option<(OriginResponse, usize)>, Refusal> {
        let parsed = ResponseHead::parse(bytes).map_err(|error| invalid(&error))?;
        parsed.map(|(head, length)| Ok((OriginResponse::new(head, method)?, length))).transpose()
    }
}

pub(super) fn invalid(why: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(StatusCode::BAD_GATEWAY, format!("invalid response of the origin: {why}"))
}

/// Returns whether a response with this status has no body and no length (RFC 9110 section 6.4.1).
fn is_bodiless(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Path and query of a target in any form (RFC 9112 section 3.2).
fn target(head: &RequestHead) -> Result<String, Refusal> {
    match head.path() {
        _ if head.method == Method::CONNECT => {
            Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "CONNECT is not supported"))
        }
        "*" if head.method == Method::OPTIONS => Ok("*".to_owned()),
        "" => Ok("/".to_owned()),
        path if path.starts_with('/') => Ok(path.to_owned()),
        path if path.starts_with('?') => Ok(format!("/{path}")),
        _ => Err(Refusal::new(StatusCode::BAD_REQUEST, "the target does not begin with a slash")),
    }
}

pub(super) fn add_via(fields: &mut HeaderMap) {
    fields.append(header::VIA, VIA);
}

fn remove_hop_by_hop(fields: &mut HeaderMap) {
    let named = joined(fields, &header::CONNECTION).unwrap_or_default().to_ascii_lowercase();
    let named = named.split(',').map(str::trim).filter(|name| !END_TO_END.contains(name));
    for name in named.chain(HOP_BY_HOP.iter().copied()) {
        fields.remove(name);
    }
}

/// Joins all lines with the same name, except `Set-Cookie` (RFC 9110 section 5.3).
pub(super) fn fold(fields: HeaderMap) -> HeaderMap {
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
        // Values and separators are valid, so the joined line is valid.
        HeaderValue::from_bytes(&all).into_iter().for_each(|all| drop(one_line_each.insert(name, all)));
    }
    one_line_each
}

#[cfg(test)]
mod tests;
