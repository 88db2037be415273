//! Requests as seen by access control and the callback.

use std::net::SocketAddr;

use serde_json::json;
use wirepath_auth::{Area, Attempt, BasicCredentials};

use crate::limits::client;

/// Properties of a request that access control uses.
#[derive(Clone, Copy, Debug)]
pub struct AuthRequest<'a> {
    /// Method.
    pub method: &'a str,
    /// Name of the protocol, without TLS: `rtsp` or `http`.
    pub protocol: &'a str,
    /// Path of the file or folder that the request opens, decoded; `None` if it opens nothing: then it
    /// requires a user only if there are users.
    pub opens: Option<&'a [u8]>,
    /// Area that the request is about.
    pub area: Area<'a>,
    /// Path of the request.
    pub path: &'a [u8],
    /// Path of the presentation, if the request is about a track.
    pub presentation: Option<&'a [u8]>,
    /// Query, without the question mark.
    pub query: &'a str,
    /// Value of `Authorization`.
    pub authorization: Option<&'a str>,
    /// Value of `User-Agent`.
    pub agent: Option<&'a str>,
    /// User that an earlier request of this connection was admitted as.
    pub admitted: Option<&'a str>,
    /// Address and port of the client.
    pub peer: SocketAddr,
    /// True if the connection uses TLS.
    pub is_secure: bool,
}

/// Reason why a request is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The area is open to everyone.
    Everyone,
    /// A user of this name authenticated.
    User(String),
    /// The URL is signed.
    SignedUrl,
    /// The callback allowed the request.
    Callback,
}

impl<'a> AuthRequest<'a> {
    /// Token of `Authorization: Bearer` over TLS; `None` without TLS, where tokens must not be accepted.
    pub(super) fn token(&self) -> Option<&'a str> {
        self.authorization.filter(|_| self.is_secure).and_then(bearer)
    }

    /// Request in the form of [`wirepath_auth`], at a time since any fixed beginning.
    pub(super) fn attempt(&self, now_ms: u64) -> Attempt<'a> {
        let AuthRequest {
            method, area, path, presentation, authorization, admitted, peer, is_secure, ..
        } = *self;
        let (client, counted) = (peer.ip().to_canonical(), client(peer.ip()));
        Attempt {
            method,
            area,
            path,
            presentation,
            authorization,
            is_secure,
            admitted,
            client,
            counted,
            now_ms,
        }
    }
}

/// Question to the callback: the fields of MediaMTX's `authHTTPAddress`, and the user agent. Credentials are
/// included only if they came over TLS.
pub(super) fn question(request: &AuthRequest<'_>, path: &[u8], basic: Option<&BasicCredentials>) -> Vec<u8> {
    let question = json!({
        "user": basic.map_or("", |basic| &basic.user),
        "password": basic.map_or("", |basic| &basic.password),
        "token": request.token().unwrap_or_default(),
        "ip": request.peer.ip().to_canonical().to_string(),
        "action": "read",
        "path": String::from_utf8_lossy(path),
        "protocol": format!("{}{}", request.protocol, if request.is_secure { "s" } else { "" }),
        "id": null,
        "query": request.query,
        "userAgent": request.agent.unwrap_or_default(),
    });
    question.to_string().into_bytes()
}

/// Token of `Authorization: Bearer` (RFC 6750 section 2.1).
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}
