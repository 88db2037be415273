//! `DELETE /api/sessions/ID`: administrators end sessions.

use std::net::SocketAddr;

use http::{StatusCode, header};
use wirepath_http::{AssetPath, BodyPart, Response};

use crate::rtsp::SessionControl;

/// Ending of sessions by administrators.
pub(crate) struct SessionEnd {
    sessions: SessionControl,
}

/// Number of the session in a path, if it is a path in `api/sessions`.
pub(super) fn session_of(path: &AssetPath) -> Option<u64> {
    let number = path.as_bytes().strip_prefix(b"api/sessions/").filter(|_| !path.names_folder())?;
    std::str::from_utf8(number)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
}

impl SessionEnd {
    /// Ending of these sessions.
    pub(crate) fn new(sessions: SessionControl) -> SessionEnd {
        SessionEnd { sessions }
    }

    /// Begins to end a session, and logs who requested it.
    pub(super) fn end(&self, number: u64, (peer, user): (SocketAddr, Option<&str>)) -> Response {
        if !self.sessions.end(number) {
            return Response::error(StatusCode::NOT_FOUND, "no such session; /api/status has their numbers");
        }
        tracing::info!(%peer, ?user, session = number, "an administrator ends a session");
        let body = format!("{{\"id\": {number}, \"state\": \"ending\"}}\n").into_bytes();
        Response::with_body(StatusCode::ACCEPTED, "application/json", vec![BodyPart::Bytes(body)])
            .header(header::CACHE_CONTROL, "no-store")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_session() {
        for (path, expected) in [
            ("/api/sessions/7", Some(7)),
            ("/api/sessions/", None),
            ("/api/sessions/7/", None),
            ("/api/sessions/+7", None),
            ("/api/sessions/7a", None),
            ("/api/sessions/99999999999999999999", None),
            ("/api/status", None),
        ] {
            assert_eq!(session_of(&AssetPath::decode(path).unwrap()), expected, "{path}");
        }
    }
}
