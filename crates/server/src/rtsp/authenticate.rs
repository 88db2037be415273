//! Authentication of requests (RFC 2326 section 16). With users, each request is authenticated, also in a
//! session. A session that was set up without a user, by a rule for everyone, a signed URL or the callback,
//! continues without further checks.

use super::handler::{RequestHandler, refuse};
use wirepath_auth::Area;
use wirepath_media::rtsp::{Method, Refusal, Request, Resource, Response, StatusCode, Target, header_names};
use wirepath_net::auth::{Admission, AuthRefusal, AuthRequest, RETRY_AFTER_S, RefusalKind};

impl RequestHandler {
    /// Response that denies a request; none if it is admitted. OPTIONS is for everyone: it reveals nothing
    /// about files, and some clients use it to keep alive.
    pub(super) async fn authenticate(&mut self, request: &Request) -> Option<Response> {
        let access = self.shared.access.as_ref().filter(|_| request.method != Method::Options)?;
        if self.is_of_admitted_session(request) {
            return None;
        }
        let resource = match &request.target {
            Target::Resource(resource) => Some(resource),
            Target::Server => None,
        };
        let path = resource.map_or(&b""[..], Resource::path);
        // A DESCRIBE of a track is only answered with the reason that it is a track.
        let track = resource.and_then(Resource::split_track);
        let presentation = track.as_ref().map(|(presentation, _)| presentation.path());
        let own_query = resource.map_or("", Resource::query);
        let (opens, query) = match request.method {
            Method::Describe => (Some(path), own_query),
            Method::Setup => {
                let presentation = presentation.unwrap_or(path);
                (Some(presentation), self.query(own_query, presentation))
            }
            _ => (None, own_query),
        };
        let checked = AuthRequest {
            method: (&request.method).into(),
            protocol: "rtsp",
            opens,
            area: Area::Path(self.session_path(request).unwrap_or(path)),
            path,
            presentation,
            query,
            authorization: request.headers.first("Authorization"),
            agent: request.headers.first("User-Agent"),
            admitted: self.user.as_deref(),
            peer: self.peer,
            is_secure: self.is_secure,
        };
        loop {
            let player = self.shared.player.snapshot();
            let admission = match access.check(checked).await {
                Ok(admission) => admission,
                Err(refusal) => return Some(response(request, refusal)),
            };
            // Else a reload replaced what is served meanwhile, perhaps with its rules: the new ones decide.
            if player.as_ref().is_none_or(|player| player.is_current()) {
                self.note_admission(admission);
                self.player = player;
                return None;
            }
        }
    }

    /// Returns whether a request is for a session of this connection that was admitted without a user. Such a
    /// session continues after its URL has expired, or after a reload gave its path another rule; SETUP adds
    /// a track to it.
    fn is_of_admitted_session(&self, request: &Request) -> bool {
        let session = request.session().filter(|_| request.method != Method::Describe);
        session.and_then(|id| self.find(id)).is_some_and(|session| session.is_without_user)
    }

    fn note_admission(&mut self, admission: Admission) {
        self.is_without_user = !matches!(admission, Admission::User(_));
        if let Admission::User(name) = admission {
            self.user = Some(name);
        }
    }

    /// Path of a session of this connection, if the request can be for no other. URLs of receivers for SAT>IP
    /// (`/stream=1`) and `*` do not name the path.
    fn session_path(&self, request: &Request) -> Option<&[u8]> {
        let opens = matches!(request.method, Method::Describe | Method::Setup);
        let id = request.session().filter(|_| !opens)?;
        self.find(id).map(|session| &session.path[..])
    }
}

fn response(request: &Request, AuthRefusal { kind, why }: AuthRefusal) -> Response {
    let status = match &kind {
        RefusalKind::Challenge(_) => StatusCode::Unauthorized,
        RefusalKind::Forbidden => StatusCode::Forbidden,
        RefusalKind::Slowed | RefusalKind::Unavailable => StatusCode::ServiceUnavailable,
    };
    let refusal = Refusal { cseq: Some(request.cseq), ..refuse(status, why) };
    let response = Response::refusal(&refusal);
    match kind {
        RefusalKind::Challenge(challenges) => response.challenges(challenges),
        RefusalKind::Forbidden => response,
        RefusalKind::Slowed | RefusalKind::Unavailable => {
            response.header(header_names::RETRY_AFTER, RETRY_AFTER_S)
        }
    }
}
