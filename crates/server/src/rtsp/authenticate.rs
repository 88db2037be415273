//! Authentication of requests (RFC 2326 section 16): each is for itself, in a session too.

use super::handler::{RequestHandler, refuse};
use wirepath_auth::{Area, Reason};
use wirepath_media::rtsp::{Method, Refusal, Request, Resource, Response, StatusCode, Target, header_names};
use wirepath_net::auth::{AuthRequest, RETRY_AFTER_S};

impl RequestHandler {
    /// Response that denies a request; none if it is admitted. OPTIONS says nothing about files and is what some
    /// clients keep alive with, so it is for everyone.
    pub(super) async fn authenticate(&mut self, request: &Request) -> Option<Response> {
        let access = self.shared.access.as_ref().filter(|_| request.method != Method::Options)?;
        let track = match &request.target {
            Target::Resource(resource) => resource.split_track(),
            Target::Server => None,
        };
        let path = match &request.target {
            Target::Resource(resource) => resource.path(),
            Target::Server => b"",
        };
        let authenticated = access.check(AuthRequest {
            method: (&request.method).into(),
            area: Area::Path(self.session_path(request).unwrap_or(path)),
            path,
            presentation: track.as_ref().map(|(presentation, _): &(Resource, u32)| presentation.path()),
            authorization: request.headers.first("Authorization"),
            admitted: self.user.as_deref(),
            peer: self.peer,
            is_secure: self.is_secure,
        });
        let denial = match authenticated.await {
            Ok(user) => {
                self.user = user.or(self.user.take());
                return None;
            }
            Err(denial) => denial,
        };
        let status = match denial.reason {
            Reason::Forbidden => StatusCode::Forbidden,
            Reason::Slowed => StatusCode::ServiceUnavailable,
            _ => StatusCode::Unauthorized,
        };
        let refusal = Refusal { cseq: Some(request.cseq), ..refuse(status, denial.reason.to_string()) };
        let response = Response::refusal(&refusal);
        Some(match denial.reason {
            Reason::Slowed => response.header(header_names::RETRY_AFTER, RETRY_AFTER_S),
            _ => response.challenges(denial.challenges),
        })
    }

    /// Path that a session of this connection is about, where the request can be about nothing else. URLs of
    /// receivers for SAT>IP (`/stream=1`) and `*` do not name it.
    fn session_path(&self, request: &Request) -> Option<&[u8]> {
        let opens = matches!(request.method, Method::Describe | Method::Setup);
        let id = request.session().filter(|_| !opens)?;
        self.sessions.get(id).map(|session| &session.path[..])
    }
}
