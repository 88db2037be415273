//! RFC 2326 section 10: the methods.

use super::counters::{EndReason, RefusalReason};
use super::handler::{Answer, RequestHandler, refuse, resource};
use super::player::OpenError;
use super::registry::SessionSlot;
use super::rtcp;
use super::session::Session;
use super::session_events::{EventKind, SessionEvent};
use super::session_info::{ClientName, SessionInfo};
use super::session_state::{PlayRange, PlayStep, SessionState};
use super::transport::{Opened, choose};
use std::sync::Arc;
use wirepath_media::rtsp::{
    Npt, NptRange, Refusal, ReplyDelivery, Request, Resource, Response, RtpInfo, StatusCode, TransportReply,
    header_names,
};
use wirepath_media::sdp;

/// The one track of a transport stream.
const TRACK: u32 = 1;

impl RequestHandler {
    /// RFC 2326 section 10.2.
    pub(super) async fn describe(&mut self, request: &Request) -> Answer {
        let resource = resource(request)?;
        if !request.accepts("application/sdp") {
            let why = "Accept: presentations are described in application/sdp";
            return Err(refuse(StatusCode::NotAcceptable, why));
        }
        let description = match self.open(resource).await {
            Ok(presentation) => presentation.describe().to_bytes(self.local.ip()),
            Err(error) => return Err(self.explain_missing(resource, error).await),
        };
        let base = format!("{}/", resource.url(&self.origin()));
        let response = self.ok(request).header(header_names::CONTENT_BASE, &base);
        Ok(response.body("application/sdp", description))
    }

    /// A track cannot be described, which is 460 (RFC 2326 section 11.3.11) where its presentation is there.
    async fn explain_missing(&self, resource: &Resource, error: OpenError) -> Refusal {
        match resource.split_track() {
            Some((presentation, TRACK))
                if error == OpenError::NotFound && self.open(&presentation).await.is_ok() =>
            {
                let url = presentation.url(&self.origin());
                refuse(StatusCode::OnlyAggregateOperationAllowed, format!("this is a track; DESCRIBE {url}"))
            }
            _ => self.open_refusal(error),
        }
    }

    /// RFC 2326 section 10.4. A presentation has one track, so its URL will do: VLC as Debian builds it sets
    /// up without having seen a description.
    pub(super) async fn set_up(&mut self, request: &Request) -> Answer {
        let resource = resource(request)?;
        let (presentation_url, number) = resource.split_track().unwrap_or_else(|| (resource.clone(), TRACK));
        if let Some(id) = request.session() {
            return Err(refuse_again(self.session(id)?, &presentation_url));
        }
        let offer = choose(&request.headers, self.peer.ip(), self.is_secure)?;
        let most_burst_us = request.burst_max_us()?;
        let slot = self.reserve()?;
        let presentation = self.open(&presentation_url).await.map_err(|error| self.open_refusal(error))?;
        if number != TRACK {
            let why = format!("there is no track {number}; SETUP {}", self.track_url(&presentation_url));
            return Err(refuse(StatusCode::NotFound, why));
        }
        let Opened { sink, rtcp, delivery } = self.open_transport(offer)?;
        let (key, events) = (slot.key, Arc::clone(&self.events));
        let on_event = Box::new(move |event| {
            events.add(SessionEvent { key, kind: EventKind::Event(event) });
        });
        let playback = presentation
            .set_up(sink, most_burst_us, on_event)
            .await
            .map_err(|error| self.open_refusal(error))?;
        let playback = Arc::from(playback);
        let (path, counters) = (presentation_url.path(), Arc::clone(&self.shared.counters));
        let client = ClientName::new(key, request.headers.first("User-Agent"));
        let info = SessionInfo::new(self.peer, self.local.ip(), path, rtcp, &playback, counters, client);
        let info = Arc::new(info);
        info.rtcp.register(&info);
        let session = Session {
            id: new_id()?,
            path: path.to_vec(),
            track_url: self.track_url(&presentation_url),
            playback,
            state: SessionState::default(),
            events: Arc::clone(&self.events),
            rtcp: tokio::spawn(rtcp::serve(Arc::clone(&info), self.shared.options.report_interval)),
            info,
            shared: Arc::clone(&self.shared),
            last_ticket: 0,
            is_held: false,
            slot,
        };
        let response = self.admit(request, session, delivery);
        Ok(match most_burst_us {
            Some(burst_us) => response.burst_max(burst_us),
            None => response,
        })
    }

    /// Reserves a session: 453 if this connection, its address or the server has as many as it may, or the
    /// load does not allow another.
    fn reserve(&self) -> Result<SessionSlot, Refusal> {
        let reserved = if self.sessions.len() >= self.shared.options.sessions_per_connection {
            Err(RefusalReason::Connection)
        } else {
            self.shared.registry.reserve(self.peer.ip()).map_err(RefusalReason::from)
        };
        let slot = reserved.map_err(|reason| {
            let who = match reason {
                RefusalReason::Total | RefusalReason::Processor | RefusalReason::Late => "the server",
                RefusalReason::Address => "your address",
                RefusalReason::Connection => "this connection",
                RefusalReason::Descriptors => "the server's open files",
            };
            self.refuse_session(reason, format!("session limit reached for {who}"))
        })?;
        let admitted = self.shared.player.admit();
        admitted
            .map_err(|overload| self.refuse_session(RefusalReason::from(overload), overload.to_string()))?;
        Ok(slot)
    }

    fn refuse_session(&self, reason: RefusalReason, why: String) -> Refusal {
        self.shared.counters.sessions_refused.increment(reason);
        refuse(StatusCode::NotEnoughBandwidth, why)
    }

    fn track_url(&self, presentation: &Resource) -> String {
        format!("{}/{}", presentation.url(&self.origin()), sdp::TRACK)
    }

    fn admit(&mut self, request: &Request, session: Session, delivery: ReplyDelivery) -> Response {
        let info = &session.info;
        info.counters.sessions.increment();
        info.counters.sessions_interleaved.add(info.is_interleaved().into());
        info.counters.sessions_started.increment();
        session.slot.fill(Arc::clone(info));
        if self.shared.log_session() {
            let (peer, path, transport) = (self.peer, &info.path, info.transport());
            tracing::info!(%peer, path, transport, "session is set up");
        }
        let transport = TransportReply { delivery, ssrc: info.ssrc };
        let response = Response::new(StatusCode::Ok, Some(request.cseq));
        let response = response.session(&session.id, self.timeout_s()).transport(transport);
        self.sessions.insert(session.id.clone(), Box::new(session));
        response
    }

    /// RFC 2326 section 10.5.
    pub(super) async fn play(&mut self, request: &Request) -> Answer {
        let session = self.named_session(request)?;
        let (scale, speed) = (request.scale()?, request.speed()?);
        let range = NptRange::of(request)?;
        let duration_us = session.playback.duration_us();
        let position_us = session.playback.progress().position_us;
        let step = session.state.play(range, duration_us, position_us)?;
        let (id, track_url) = (session.id.clone(), session.track_url.clone());
        let until = |until_us: Option<u64>| until_us.or(duration_us).map(Npt::At);
        let mut response = self.ok(request);
        match step {
            PlayStep::Start(stretch) => {
                let position = self.start(&id, stretch).await?;
                let info =
                    RtpInfo { url: track_url, sequence: position.sequence, timestamp: position.timestamp };
                let range = NptRange { start: Some(Npt::At(position.at_us)), end: until(stretch.until_us) };
                response = response.range(range).rtp_info(&info);
            }
            // Its first packet is not known yet, so there is no RTP-Info to give.
            PlayStep::Queued(PlayRange { from_us, until_us }) => {
                let start = from_us.map_or(Npt::Now, Npt::At);
                response = response.range(NptRange { start: Some(start), end: until(until_us) });
            }
            PlayStep::Unchanged => {
                response = response.range(NptRange { start: Some(Npt::At(position_us)), end: until(None) });
            }
        }
        // RFC 2326 sections 12.34 and 12.35: the answer says what is done, which is always 1.
        for (asked, name) in [(scale, header_names::SCALE), (speed, header_names::SPEED)] {
            response = if asked.is_some() { response.header(name, "1.0") } else { response };
        }
        Ok(response)
    }

    /// RFC 2326 section 10.6.
    pub(super) async fn pause(&mut self, request: &Request) -> Answer {
        let session = self.named_session(request)?;
        let point = NptRange::of(request)?.and_then(|range| range.start);
        if let Some(Npt::At(_)) = point {
            let why = "Range: a pause point to come is not supported; PAUSE without Range pauses at once";
            return Err(refuse(StatusCode::NotImplemented, why));
        }
        let (key, ticket) = (session.key(), session.pause()?);
        let paused = |kind: &EventKind| match kind {
            EventKind::Paused(number, result) if *number == ticket => Some(result.clone()),
            _ => None,
        };
        let at_us = self.wait(key, paused).await?;
        self.shared.counters.pauses.increment();
        Ok(self.ok(request).range(NptRange { start: Some(Npt::At(at_us)), end: None }))
    }

    /// RFC 2326 section 10.7.
    pub(super) async fn tear_down(&mut self, request: &Request) -> Answer {
        let id = self.named_session(request)?.id.clone();
        self.end(&id, EndReason::Teardown).await;
        Ok(self.ok(request))
    }

    /// RFC 2326 sections 10.8 and 10.9: there are no parameters, but clients keep alive by asking for none.
    pub(super) fn parameters(&mut self, request: &Request) -> Answer {
        let body = String::from_utf8_lossy(&request.body);
        let names: Vec<&str> =
            body.lines().map(|line| line.split(':').next().unwrap_or(line).trim()).collect();
        let names: String =
            names.iter().filter(|name| !name.is_empty()).map(|name| format!("{name}\r\n")).collect();
        if names.is_empty() {
            return Ok(self.ok(request));
        }
        let response = Response::new(StatusCode::ParameterNotUnderstood, Some(request.cseq));
        Ok(response.body("text/parameters", names.into_bytes()))
    }
}

/// RFC 2326 section 10.4: another track would have to join the session, and there is none; the same one
/// cannot change its transport.
fn refuse_again(session: &Session, presentation: &Resource) -> Refusal {
    if presentation.path() == session.path {
        let why = "SETUP: the session is set up already; TEARDOWN it to change its transport";
        return refuse(StatusCode::MethodNotValidInThisState, why);
    }
    let why = "SETUP: presentations cannot share a session; leave Session out";
    refuse(StatusCode::AggregateOperationNotAllowed, why)
}

/// RFC 2326 section 3.4 asks for eight random octets; these are 64 random bits.
fn new_id() -> Result<String, Refusal> {
    match getrandom::u64() {
        Ok(number) => Ok(format!("{number:016x}")),
        Err(error) => Err(refuse(StatusCode::InternalServerError, format!("no randomness: {error}"))),
    }
}
