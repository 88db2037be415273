//! Request handler of a connection. Its methods are in `methods`; their shared parts are here.

use super::counters::EndReason;
use super::output::Output;
use super::player::{OpenError, PlayRange, Player, Presentation};
use super::ports::canonical;
use super::replay::ONLY_ARCHIVES;
use super::session::Session;
use super::session_events::{EventKind, SessionEvent, SessionEvents};
use super::shared::Shared;
use super::srtp::OfferedKeys;
use crate::played_as::PlayedAs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout, timeout_at};
use wirepath_media::rtsp::{
    Method, REPLAY_OPTION, Refusal, Request, Resource, Response, StatusCode, Target, header_names,
};
use wirepath_net::{Addresses, Exceeded};
use wirepath_playback::{PlayError, Position};

/// Methods of a presentation.
pub(super) const METHODS: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";

/// Methods of `*`.
const SERVER_METHODS: &str = "OPTIONS, GET_PARAMETER, SET_PARAMETER";

/// Time limit for an engine thread to stop an ending playback, which takes some microseconds.
const PAUSE_LIMIT: Duration = Duration::from_millis(50);

/// Answers one connection's requests and owns its sessions.
pub(super) struct RequestHandler {
    pub(super) shared: Arc<Shared>,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// True with TLS: media then go only over the connection, or are SRTP.
    pub(super) is_secure: bool,
    pub(super) output: Output,
    /// User as whom a request was admitted.
    pub(super) user: Option<String>,
    /// Last described presentation, with the query of its URL if it had one, since players leave the query
    /// out later.
    pub(super) described: Option<Box<Described>>,
    /// SRTP keys of the last described presentation.
    pub(super) offered_keys: Option<Box<OfferedKeys>>,
    /// Player that rules admitted the current request to.
    pub(super) player: Option<Arc<dyn Player>>,
    /// True if the current request was admitted without a user: by a rule, its URL or the callback.
    pub(super) is_without_user: bool,
    /// Unordered, since a connection has few sessions.
    pub(super) sessions: Vec<Session>,
    pub(super) events: Arc<SessionEvents>,
    /// True when an administrator has ended the last session. The connection is then closed, since a player
    /// might wait forever.
    pub(super) is_dismissed: bool,
}

/// Presentation that was described, and the query of its URL.
pub(super) struct Described {
    pub(super) path: Vec<u8>,
    pub(super) query: String,
}

/// An answer, or why there is none.
pub(super) type Answer = Result<Response, Refusal>;

impl RequestHandler {
    pub(super) fn new(shared: Arc<Shared>, addresses: Addresses, output: Output) -> Self {
        let Addresses { local, peer, is_secure } = addresses;
        let (local, peer, events) = (canonical(local), canonical(peer), Arc::default());
        Self {
            shared,
            local,
            peer,
            is_secure,
            output,
            user: None,
            described: None,
            offered_keys: None,
            player: None,
            is_without_user: false,
            sessions: Vec::new(),
            events,
            is_dismissed: false,
        }
    }

    /// Addresses of the connection.
    pub(super) fn addresses(&self) -> Addresses {
        Addresses { local: self.local, peer: self.peer, is_secure: self.is_secure }
    }

    /// Answers a request. If the future is dropped early, a playback may still do what was requested. So the
    /// future is dropped only with the connection, whose sessions end then.
    pub(super) async fn answer(&mut self, request: &Request) -> Response {
        if let Some(denied) = self.authenticate(request).await {
            return denied;
        }
        let answer = match timeout(self.shared.options.answer_timeout, self.dispatch(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.give_up(request)),
        };
        // An idle connection keeps nothing open that a reload removes.
        self.player = None;
        // Not earlier: while the response is awaited, perhaps because of storage, the client can send
        // nothing.
        if let Some(session) = request.session().and_then(|id| self.find(id)) {
            session.info.note_heard();
        }
        answer.unwrap_or_else(|refusal| self.refuse(request, refusal))
    }

    /// Cancels a PLAY that timed out: no packets may follow the refusal.
    fn give_up(&mut self, request: &Request) -> Refusal {
        let id = request.session().filter(|_| request.method == Method::Play);
        let why = match id.and_then(|id| self.find_mut(id)) {
            Some(session) => {
                session.cancel();
                "storage timed out; the session is paused, try again later"
            }
            None => "storage timed out; try again later",
        };
        refuse(StatusCode::ServiceUnavailable, why)
    }

    async fn dispatch(&mut self, request: &Request) -> Answer {
        match &request.method {
            method @ (Method::Extension(_) | Method::PlayNotify) => {
                let why = format!("unknown method {}", <&str>::from(method));
                return Err(refuse(StatusCode::NotImplemented, why));
            }
            Method::Announce | Method::Record | Method::Redirect => {
                return Err(refuse(StatusCode::MethodNotAllowed, "this server only plays"));
            }
            _ => {}
        }
        if !unsupported_options(request).is_empty() {
            return Err(refuse(StatusCode::OptionNotSupported, "the option is not supported"));
        }
        if let Some(id) = request.session() {
            self.session(id)?;
        }
        match request.method {
            Method::Describe => self.describe(request).await,
            Method::Setup => self.set_up(request).await,
            Method::Play => self.play(request).await,
            Method::Pause => self.pause(request).await,
            Method::Teardown => self.tear_down(request).await,
            Method::GetParameter | Method::SetParameter => self.parameters(request),
            _ => Ok(self.ok(request).header(header_names::PUBLIC, METHODS)),
        }
    }

    /// The presentation with ONVIF replay, if the request requires that: 551 if it has none.
    pub(super) fn check_replay(
        &self,
        request: &Request,
        presentation: &dyn Presentation,
    ) -> Result<Option<Arc<dyn Presentation>>, Refusal> {
        if !request.requires_replay() {
            return Ok(None);
        }
        let refusal = || refuse(StatusCode::OptionNotSupported, ONLY_ARCHIVES);
        presentation.with_replay().map(Some).ok_or_else(refusal)
    }

    /// Next event of this connection's playbacks, in order.
    pub(super) async fn next_event(&self) -> SessionEvent {
        self.events.next().await
    }

    /// Handles an event of a playback, unless its session has ended.
    pub(super) async fn handle(&mut self, event: &SessionEvent) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.key() == event.key) else {
            return;
        };
        if let Some(reason) = session.handle(&event.kind) {
            let id = session.id.clone();
            self.end(&id, reason).await;
            self.is_dismissed = reason == EndReason::Administrator && self.sessions.is_empty();
        }
    }

    /// Releases packets that wait until the response to PLAY has been written.
    pub(super) fn release(&mut self) {
        self.sessions.iter_mut().for_each(|session| session.release());
    }

    /// Handles an interleaved frame of the client: RTCP, or an unexpected frame.
    pub(super) fn receive_frame(&self, channel: u8, frame: &[u8]) {
        let mut infos = self.sessions.iter().map(|session| &session.info);
        match infos.find(|info| info.has_rtcp_channel(channel)) {
            Some(info) => info.read_packet(frame, SystemTime::now()),
            None => self.shared.counters.frames_dropped.increment(),
        }
    }

    /// Time at which the first session will have been silent for too long. Interleaved sessions never are:
    /// they live and end with their connection.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let over_udp = self.sessions.iter().filter(|session| !session.info.is_interleaved());
        let silent = over_udp.map(|session| session.info.heard()).min()?;
        Some(silent + self.shared.options.session_timeout)
    }

    /// Ends the sessions that have been silent for too long.
    pub(super) async fn expire(&mut self, now: Instant) {
        let limit = self.shared.options.session_timeout;
        let is_silent =
            |session: &mut Session| !session.info.is_interleaved() && session.info.heard() + limit <= now;
        let silent = self.sessions.extract_if(.., is_silent).collect();
        end(silent, EndReason::Timeout).await;
    }

    pub(super) async fn end_all(&mut self, reason: EndReason) {
        end(std::mem::take(&mut self.sessions), reason).await;
    }

    pub(super) async fn end(&mut self, id: &str, reason: EndReason) {
        end(self.sessions.extract_if(.., |session| session.id == id).collect(), reason).await;
    }

    /// A session of this connection. Sessions of other connections are unknown here, so that a leaked
    /// identifier is useless.
    pub(super) fn session(&mut self, id: &str) -> Result<&mut Session, Refusal> {
        let unknown =
            || refuse(StatusCode::SessionNotFound, "no such session on this connection; send SETUP");
        self.find_mut(id).ok_or_else(unknown)
    }

    pub(super) fn find(&self, id: &str) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id)
    }

    fn find_mut(&mut self, id: &str) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }

    /// The session that a request names, if its URL is the session's, with or without the track (RFC 2326
    /// section 14.3 asks to be forgiving here). Playing or pausing a single track of several gets 460
    /// (section 11.3.11).
    pub(super) fn named_session(&mut self, request: &Request) -> Result<&mut Session, Refusal> {
        let Some(id) = request.session() else {
            return Err(refuse(StatusCode::SessionNotFound, "missing Session header; send SETUP first"));
        };
        let resource = resource(request)?;
        let session = self.session(id)?;
        if !is_about(resource, &session.path) {
            return Err(refuse(StatusCode::NotFound, "the session is about another URL"));
        }
        if session.tracks.len() > 1 && resource.path() != session.path && resource.split_track().is_some() {
            let why = "this is a track of several; use the URL of the presentation";
            return Err(refuse(StatusCode::OnlyAggregateOperationAllowed, why));
        }
        Ok(session)
    }

    /// Plays a range and waits until the first packet leaves.
    pub(super) async fn start(&mut self, id: &str, range: PlayRange) -> Result<Position, Refusal> {
        let session = self.session(id)?;
        let (key, ticket) = (session.key(), session.start(range));
        self.wait(key, |kind| match kind {
            EventKind::Started(number, _, result) if *number == ticket => Some(result.clone()),
            _ => None,
        })
        .await
    }

    /// Waits for an event of one session, and meanwhile handles those of all others.
    pub(super) async fn wait<T>(
        &mut self,
        key: u64,
        is_awaited: impl Fn(&EventKind) -> Option<Result<T, PlayError>>,
    ) -> Result<T, Refusal> {
        while self.sessions.iter().any(|session| session.key() == key) {
            let event = self.events.next().await;
            let found = if event.key == key { is_awaited(&event.kind) } else { None };
            self.handle(&event).await;
            if let Some(result) = found {
                return result.map_err(|error| self.play_refusal(key, &error));
            }
        }
        Err(refuse(StatusCode::SessionNotFound, "the session has just ended"))
    }

    fn play_refusal(&self, key: u64, error: &PlayError) -> Refusal {
        let session = || self.sessions.iter().find(|session| session.key() == key);
        match error {
            PlayError::BeyondEnd => refuse(StatusCode::InvalidRange, error.to_string()),
            PlayError::NotYet { reason, retry_after_s } => Refusal {
                retry_after_s: Some(*retry_after_s),
                ..refuse(StatusCode::ServiceUnavailable, &**reason)
            },
            PlayError::Source(_) => match session().and_then(|session| session.playback.failure()) {
                Some(failure) if failure.is_asset => refuse(StatusCode::UnsupportedMediaType, failure.reason),
                Some(failure) => refuse(StatusCode::ServiceUnavailable, failure.reason),
                None => self.fail(StatusCode::InternalServerError, &error.to_string()),
            },
            error => self.fail(StatusCode::InternalServerError, &error.to_string()),
        }
    }

    /// Query for a presentation: its URL's own, or that by which the presentation was described. ffmpeg, GStreamer and
    /// live555 make the URLs of tracks of `Content-Base`, which has none.
    pub(super) fn query<'a>(&'a self, own: &'a str, path: &[u8]) -> &'a str {
        let described = self.described.as_ref().filter(|described| own.is_empty() && described.path == path);
        described.map_or(own, |described| &described.query)
    }

    /// Opens a presentation, which takes a descriptor meanwhile.
    pub(super) async fn open(&self, resource: &Resource) -> Result<Arc<dyn Presentation>, OpenError> {
        let _descriptor =
            self.shared.descriptors.admit(self.peer.ip(), 1).map_err(|exceeded| match exceeded {
                Exceeded::Address => OpenError::AtLimit(
                    "your address holds too many connections, sessions and downloads".to_owned(),
                ),
                _ => OpenError::Exhausted("the limit of descriptors is reached".to_owned()),
            })?;
        let played_as = PlayedAs::of_query(self.query(resource.query(), resource.path()));
        let player = self.player.as_ref().unwrap_or(&self.shared.player);
        player.open(resource.path(), played_as, self.peer.ip()).await
    }

    pub(super) fn open_refusal(&self, error: OpenError) -> Refusal {
        match error {
            OpenError::NotFound | OpenError::Folder => refuse(StatusCode::NotFound, error.to_string()),
            OpenError::Forbidden(why) => refuse(StatusCode::Forbidden, why),
            OpenError::NotPlayable(why) => refuse(StatusCode::UnsupportedMediaType, why),
            OpenError::NotYet(why) => refuse(StatusCode::ServiceUnavailable, why),
            OpenError::Exhausted(why) => self.fail(StatusCode::NotEnoughBandwidth, &why),
            OpenError::Busy(why) => self.fail(StatusCode::ServiceUnavailable, &why),
            OpenError::NoSpace(why) => {
                self.log_failure(StatusCode::ServiceUnavailable, &why);
                refuse(StatusCode::ServiceUnavailable, why)
            }
            OpenError::AtLimit(why) => refuse(StatusCode::NotEnoughBandwidth, why),
            OpenError::Failed(why) => self.fail(StatusCode::InternalServerError, &why),
        }
    }

    /// Logs a failure of the server. The client does not get the reason, which may name files and folders of
    /// this machine.
    fn fail(&self, status: StatusCode, why: &str) -> Refusal {
        self.log_failure(status, why);
        let told = match status {
            StatusCode::NotEnoughBandwidth => "the server has too many files open; try again later",
            StatusCode::ServiceUnavailable => "the server cannot do this now; try again later",
            _ => "the server failed; its log says why",
        };
        refuse(status, told)
    }

    fn log_failure(&self, status: StatusCode, why: &str) {
        if self.shared.log_refusal() {
            tracing::warn!(peer = %self.peer, status = u16::from(status), why, "a request could not be served");
        }
    }

    /// Response 200, with the session of the request.
    pub(super) fn ok(&self, request: &Request) -> Response {
        let response = Response::new(StatusCode::Ok, Some(request.cseq));
        match request.session().filter(|id| self.find(id).is_some()) {
            Some(id) => response.session(id, self.timeout_s()),
            None => response,
        }
    }

    pub(super) fn timeout_s(&self) -> u64 {
        self.shared.options.session_timeout.as_secs().max(1)
    }

    /// Scheme, host and port of the server for returned URLs, if the client sent none.
    pub(super) fn origin(&self) -> String {
        // Without the scope of a link-local address.
        format!("rtsp://{}", SocketAddr::new(self.local.ip(), self.local.port()))
    }

    fn refuse(&self, request: &Request, refusal: Refusal) -> Response {
        self.log_refusal(request, &refusal);
        let response = Response::refusal(&Refusal { cseq: Some(request.cseq), ..refusal.clone() });
        match (refusal.status, &request.target) {
            (StatusCode::OptionNotSupported, _) => {
                let options = unsupported_options(request);
                // A presentation does not support an option that the server supports for others.
                response.unsupported(&if options.is_empty() { request.required_options() } else { options })
            }
            (StatusCode::MethodNotAllowed, Target::Server) => {
                response.header(header_names::ALLOW, SERVER_METHODS)
            }
            (StatusCode::MethodNotAllowed, _) => response.header(header_names::ALLOW, METHODS),
            _ => response,
        }
    }

    /// Logs a refusal for the operator, since players may not show it to their user.
    fn log_refusal(&self, request: &Request, refusal: &Refusal) {
        const MOST_CHARACTERS: usize = 200;
        if !self.shared.log_refusal() {
            return;
        }
        let asset: String = match &request.target {
            Target::Server => "*".to_owned(),
            Target::Resource(resource) => {
                String::from_utf8_lossy(resource.path()).chars().take(MOST_CHARACTERS).collect()
            }
        };
        // Debug form, because a name may contain line ends.
        tracing::info!(peer = %self.peer, method = ?request.method, ?asset, %refusal, "refused");
    }
}

/// Ends sessions together, each after its last packet: no packet may follow BYE (RFC 3550 section 6.3.7).
async fn end(mut sessions: Vec<Session>, reason: EndReason) {
    let deadline = Instant::now() + PAUSE_LIMIT;
    let drained: Vec<_> = sessions.iter_mut().map(|session| session.pause_and_drain()).collect();
    for (session, drained) in sessions.into_iter().zip(drained) {
        // After the deadline the session ends anyway.
        _ = timeout_at(deadline, drained).await;
        session.end(reason);
    }
}

/// Resource of a request, unless it is the server.
pub(super) fn resource(request: &Request) -> Result<&Resource, Refusal> {
    match &request.target {
        Target::Resource(resource) => Ok(resource),
        Target::Server => Err(refuse(StatusCode::MethodNotAllowed, "* is not playable; name a URL")),
    }
}

/// Returns whether a URL is a presentation's or its track's. Receivers for SAT>IP, which is what Debian
/// builds VLC with, name the track `stream=N`, below the server or below the presentation (SAT>IP
/// specification, section 3.5.3).
fn is_about(resource: &Resource, presentation: &[u8]) -> bool {
    let path = resource.path();
    let (parent, name) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&b""[..], path),
    };
    let is_satip = name.strip_prefix(b"stream=").is_some_and(|number| number.iter().all(u8::is_ascii_digit));
    path == presentation
        || is_satip && (parent.is_empty() || parent == presentation)
        || resource.split_track().is_some_and(|(parent, _)| parent.path() == presentation)
}

/// Required options that no presentation supports.
fn unsupported_options(request: &Request) -> Vec<&str> {
    request.required_options().into_iter().filter(|option| *option != REPLAY_OPTION).collect()
}

pub(super) fn refuse(status: StatusCode, why: impl Into<String>) -> Refusal {
    Refusal::new(status, why)
}
