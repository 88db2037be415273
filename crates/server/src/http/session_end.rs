//! `DELETE /api/sessions/ID`: administrators end sessions.
//!
//! A browser sends its stored credentials with requests of any page. So a request from a page of another
//! origin is refused, by the fields in which the browser names the origin. In addition DELETE needs a
//! preflight, whose response does not allow it (CORS).

use std::net::SocketAddr;
use std::sync::Arc;

use http::{StatusCode, header};
use wirepath_auth::Area;
use wirepath_http::{AssetPath, BodyPart, Request, Response};
use wirepath_net::Addresses;
use wirepath_net::auth::AccessControl;

use crate::rtsp::SessionControl;

/// Ending of sessions by administrators.
pub(crate) struct SessionEnd {
    sessions: SessionControl,
    access: Option<Arc<AccessControl>>,
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
    /// Ending of these sessions by the administrators of `access`.
    pub(crate) fn new(sessions: SessionControl, access: Option<Arc<AccessControl>>) -> SessionEnd {
        SessionEnd { sessions, access }
    }

    /// Admits administrators, unless the request comes from a page of another origin.
    pub(super) async fn admit(
        &self,
        path: &AssetPath,
        request: &Request,
        client: (Addresses, &mut Option<String>),
    ) -> Result<(), Response> {
        let forbidden =
            |why| Response::error(StatusCode::FORBIDDEN, why).header(header::CACHE_CONTROL, "no-store");
        if request.is_cross_origin {
            return Err(forbidden("sessions are not ended by pages of other origins"));
        }
        match &self.access {
            Some(access) if access.has_administrators() => {
                access.check_http(Area::Administration, path, request, client).await
            }
            _ => Err(forbidden(
                "this server has no administrators: start it with --users FILE and --admin-users NAME",
            )),
        }
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
