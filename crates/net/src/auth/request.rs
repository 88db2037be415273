//! Requests, as access control and the callback look at them.

use std::net::SocketAddr;

use serde_json::json;
use wirepath_auth::{Area, Attempt, BasicCredentials};

use crate::limits::client;

/// A request, as far as access control looks at it.
#[derive(Clone, Copy, Debug)]
pub struct AuthRequest<'a> {
    /// Method.
    pub method: &'a str,
    /// Name of the protocol, without TLS: `rtsp` or `http`.
    pub protocol: &'a str,
    /// Path of the file or folder that the request opens, decoded; none if it opens nothing: then it is for users only
    /// where there are some.
    pub opens: Option<&'a [u8]>,
    /// Place that it is about.
    pub area: Area<'a>,
    /// Path of the request.
    pub path: &'a [u8],
    /// Path of the presentation, where the request is about a track.
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
    /// The connection has TLS.
    pub is_secure: bool,
}

/// Reason for which a request is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The place is for everyone.
    Everyone,
    /// A user of this name authenticated.
    User(String),
    /// The URL is signed.
    SignedUrl,
    /// The callback allowed it.
    Callback,
}

impl<'a> AuthRequest<'a> {
    /// Token of `Authorization: Bearer` over TLS; none without TLS, where nobody may rely on it.
    pub(super) fn token(&self) -> Option<&'a str> {
        self.authorization.filter(|_| self.is_secure).and_then(bearer)
    }

    /// The same for [`wirepath_auth`], at this time since any beginning.
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

/// The question to the callback: fields as MediaMTX's `authHTTPAddress` sends them, and the user agent. Credentials are
/// those that came over TLS.
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

/// The token of `Authorization: Bearer` (RFC 6750 section 2.1).
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}
