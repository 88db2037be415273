//! RFC 2326 section 10.4: SETUP, which makes a session or adds a track to one.

use super::counters::RefusalReason;
use super::handler::{Answer, RequestHandler, refuse, resource};
use super::key_offers::client_key;
use super::player::{Joined, SessionPlayback};
use super::registry::SessionSlot;
use super::replay::ensure_replay_is_possible;
use super::rtcp_path::RtcpPath;
use super::session::{Session, SetUpTrack};
use super::session_events::{EventKind, SessionEvent};
use super::session_info::{ClientName, SessionInfo};
use super::session_state::{Phase, SessionState};
use super::srtp::{Srtcp, TrackKeys};
use super::track::{self, Track};
use super::transport::{Accepted, Offerer, Opened, Unicast, choose, choose_like};
use std::sync::Arc;
use wirepath_media::rtsp::{
    Headers, Profile, Refusal, Request, Resource, Response, StatusCode, TransportReply,
};
use wirepath_media::sdp;
use wirepath_media::srtp::MasterKey;

impl RequestHandler {
    /// RFC 2326 section 10.4.
    pub(super) async fn set_up(&mut self, request: &Request) -> Answer {
        let resource = resource(request)?;
        let (presentation_url, number) = match resource.split_track() {
            Some((presentation, number)) => (presentation, Some(number)),
            None => (resource.clone(), None),
        };
        if let Some(id) = request.session() {
            return self.add_track(request, id, &presentation_url, number);
        }
        let path = presentation_url.path();
        let offer = choose(&request.headers, self.offerer(self.offered_keys(path)))?;
        let most_burst_us = request.burst_max_us()?;
        let slot = self.reserve()?;
        let presentation = self.open(&presentation_url).await.map_err(|error| self.open_refusal(error))?;
        let replay = self.check_replay(request, &*presentation)?;
        let is_replay = replay.is_some();
        let presentation = replay.unwrap_or(presentation);
        let index = self.track_index(&presentation_url, number, presentation.tracks())?;
        if let bits_per_second @ Some(_) = presentation.bits_per_second() {
            self.admit_rate(bits_per_second)?;
        }
        let keys = self.offered_keys(path).filter(|keys| keys.are_for(offer.profile()));
        let key = track_key(keys, index)?.cloned();
        let is_protected = key.is_some();
        let srtcp = srtcp(key.as_ref(), &request.headers)?;
        let (number, events) = (slot.key, Arc::clone(&self.events));
        let on_event = Box::new(move |event| {
            events.add(SessionEvent { key: number, kind: EventKind::Event(event) });
        });
        let begun = match offer {
            Accepted::Unicast(offer, _) => {
                let Opened { sink, rtcp, delivery } = self.open_transport(offer, key)?;
                let set_up = presentation.set_up(index, sink, most_burst_us, on_event).await;
                set_up.map(|playback| (playback, rtcp, delivery, None))
            }
            Accepted::Multicast => presentation.join(on_event).await.map(|Joined { playback, group }| {
                (playback, RtcpPath::Group, group.delivery(index), Some(group))
            }),
        };
        let (playback, rtcp, delivery, group) = begun.map_err(|error| self.open_refusal(error))?;
        let playback: Arc<dyn SessionPlayback> = Arc::from(playback);
        let counters = Arc::clone(&self.shared.counters);
        let client = ClientName::new(number, request.headers.first("User-Agent"));
        let track = Track::new(index, playback.source(index), rtcp, srtcp);
        let (way, ssrc) = (Arc::clone(&track.rtcp), track.source.ssrc);
        let info = SessionInfo::new(self.peer, self.local.ip(), path, track, &playback, counters, client);
        let info = Arc::new(info);
        way.register(&info);
        let url = self.track_url(&presentation_url, index);
        let session = Session {
            id: new_id()?,
            path: path.to_vec(),
            is_replay,
            keys: if is_protected { self.take_keys(path) } else { None },
            is_without_user: self.is_without_user,
            tracks: vec![SetUpTrack { index, url, _descriptor: None }],
            playback,
            group,
            state: SessionState::default(),
            events: Arc::clone(&self.events),
            info,
            shared: Arc::clone(&self.shared),
            last_ticket: 0,
            is_held: false,
            slot,
        };
        let transport = TransportReply { profile: offer.profile(), delivery, ssrc };
        let response = self.admit(request, session, transport);
        Ok(match most_burst_us {
            Some(burst_us) => response.burst_max(burst_us),
            None => response,
        })
    }

    /// Adds a track to a session: RFC 2326 section 10.4.
    fn add_track(
        &mut self,
        request: &Request,
        id: &str,
        presentation: &Resource,
        number: Option<u32>,
    ) -> Answer {
        let session = self.session(id)?;
        if presentation.path() != session.path {
            let why = "SETUP: presentations cannot share a session; leave Session out";
            return Err(refuse(StatusCode::AggregateOperationNotAllowed, why));
        }
        ensure_replay_is_possible(request, session)?;
        let (tracks, transport) = (session.playback.tracks(), session.info.transport());
        // A further track has the same protection as the first one, with any profile.
        let is_protected = session.keys.is_some();
        let group = session.group;
        let is_playing = matches!(session.state.phase(), Phase::Playing { .. });
        let set_up: Vec<u8> = session.tracks.iter().map(|track| track.index).collect();
        let index = self.track_index(presentation, number, tracks)?;
        if set_up.contains(&index) {
            let why = "SETUP: the track is set up already; TEARDOWN the session to change its transport";
            return Err(refuse(StatusCode::MethodNotValidInThisState, why));
        }
        if is_playing {
            let why = "SETUP: the session is playing; PAUSE it to add a track";
            return Err(refuse(StatusCode::MethodNotValidInThisState, why));
        }
        let offerer = Offerer { has_keys: is_protected, has_sdes: is_protected, ..self.offerer(None) };
        let offer = choose_like(&request.headers, offerer, transport)?;
        let key = track_key(self.session(id)?.keys.as_ref(), index)?.cloned();
        let srtcp = srtcp(key.as_ref(), &request.headers)?;
        let descriptor = match offer {
            Accepted::Unicast(Unicast::Udp(_), _) => {
                let reserved = self.shared.registry.reserve_track(self.peer.ip());
                Some(reserved.map_err(|exceeded| self.refuse_limit(RefusalReason::from(exceeded)))?)
            }
            Accepted::Unicast(Unicast::Interleaved(_), _) | Accepted::Multicast => None,
        };
        let (rtcp, delivery) = match (offer, group) {
            (Accepted::Unicast(offer, _), _) => {
                let Opened { sink, rtcp, delivery } = self.open_transport(offer, key)?;
                let added = self.session(id)?.playback.add(index, sink);
                added.map_err(|error| self.open_refusal(error))?;
                (rtcp, delivery)
            }
            (Accepted::Multicast, Some(group)) => (RtcpPath::Group, group.delivery(index)),
            (Accepted::Multicast, None) => {
                return Err(refuse(StatusCode::UnsupportedTransport, "Transport: the session has no group"));
            }
        };
        let url = self.track_url(presentation, index);
        let session = self.session(id)?;
        let track = Track::new(index, session.playback.source(index), rtcp, srtcp);
        let ssrc = track.source.ssrc;
        track.rtcp.register(&session.info);
        session.info.add_track(track);
        session.tracks.push(SetUpTrack { index, url, _descriptor: descriptor });
        session.info.counters.tracks.increment();
        Ok(self.ok(request).transport(TransportReply { profile: offer.profile(), delivery, ssrc }))
    }

    fn offerer(&self, keys: Option<&TrackKeys>) -> Offerer {
        let has_groups = self.shared.player.has_groups();
        let has_sdes = keys.is_some_and(|keys| keys.are_for(Profile::Plain));
        let (peer, is_secure, has_keys) = (self.peer.ip(), self.is_secure, keys.is_some());
        Offerer { peer, is_secure, has_keys, has_sdes, has_groups }
    }

    /// Index of the track that a URL names. For a presentation with one track, its own URL is accepted, since
    /// VLC as built by Debian sets up without a description. For several tracks, that URL gets 459 (RFC 2326
    /// section 11.3.10).
    fn track_index(&self, presentation: &Resource, number: Option<u32>, tracks: u8) -> Result<u8, Refusal> {
        let first = self.track_url(presentation, 0);
        match number {
            None if tracks == 1 => Ok(0),
            None => {
                let why =
                    format!("the presentation has {tracks} tracks; SETUP each of them, such as {first}");
                Err(refuse(StatusCode::AggregateOperationNotAllowed, why))
            }
            Some(number) => (0..tracks).find(|index| track::number(*index) == number).ok_or_else(|| {
                refuse(StatusCode::NotFound, format!("there is no track {number}; SETUP {first}"))
            }),
        }
    }

    /// Reserves a session: 453 if this connection, its address or the server has the maximum number, or if
    /// the load does not allow another.
    fn reserve(&self) -> Result<SessionSlot, Refusal> {
        let reserved = if self.sessions.len() >= self.shared.options.sessions_per_connection {
            Err(RefusalReason::Connection)
        } else {
            self.shared.registry.reserve(self.peer.ip()).map_err(RefusalReason::from)
        };
        let slot = reserved.map_err(|reason| self.refuse_limit(reason))?;
        self.admit_rate(None)?;
        Ok(slot)
    }

    /// Admits a session by the load, and by its bit rate if known.
    fn admit_rate(&self, bits_per_second: Option<u64>) -> Result<(), Refusal> {
        let admitted = self.shared.player.admit(bits_per_second);
        admitted.map_err(|overload| self.refuse_session(RefusalReason::from(overload), overload.to_string()))
    }

    fn refuse_limit(&self, reason: RefusalReason) -> Refusal {
        let who = match reason {
            RefusalReason::Address => "your address",
            RefusalReason::Connection => "this connection",
            RefusalReason::Descriptors => "the server's open files",
            _ => "the server",
        };
        self.refuse_session(reason, format!("session limit reached for {who}"))
    }

    fn refuse_session(&self, reason: RefusalReason, why: String) -> Refusal {
        self.shared.counters.sessions_refused.increment(reason);
        refuse(StatusCode::NotEnoughBandwidth, why)
    }

    fn track_url(&self, presentation: &Resource, index: u8) -> String {
        format!("{}/{}", presentation.url(&self.origin()), sdp::track_name(track::number(index)))
    }

    fn admit(&mut self, request: &Request, session: Session, transport: TransportReply) -> Response {
        let info = &session.info;
        info.counters.sessions.increment();
        info.counters.sessions_interleaved.add(info.is_interleaved().into());
        info.counters.tracks.increment();
        info.counters.sessions_started.increment();
        session.slot.fill(Arc::clone(info), Arc::clone(&session.events));
        if self.shared.log_session() {
            let (peer, path, transport) = (self.peer, &info.path, info.transport().name());
            tracing::info!(%peer, path, transport, "session is set up");
        }
        let response = Response::new(StatusCode::Ok, Some(request.cseq));
        let response = response.session(&session.id, self.timeout_s()).transport(transport);
        self.sessions.reserve_exact(1); // most connections have one
        self.sessions.push(session);
        response
    }
}

/// RTCP of a track with a key. The client's key is read only in this case, since other sessions do not use
/// `KeyMgmt`.
fn srtcp(key: Option<&MasterKey>, headers: &Headers) -> Result<Option<Srtcp>, Refusal> {
    key.map(|key| Ok(Srtcp::new(key, client_key(headers)?.as_ref()))).transpose()
}

/// Key of a track, if the session's media are encrypted.
fn track_key(keys: Option<&TrackKeys>, index: u8) -> Result<Option<&MasterKey>, Refusal> {
    let missing = || refuse(StatusCode::NotFound, "the description had no such track; DESCRIBE it again");
    keys.map(|keys| keys.get(index).ok_or_else(missing)).transpose()
}

/// RFC 2326 section 3.4 asks for eight random octets; these are 64 random bits.
fn new_id() -> Result<String, Refusal> {
    match getrandom::u64() {
        Ok(number) => Ok(format!("{number:016x}")),
        Err(error) => Err(refuse(StatusCode::InternalServerError, format!("no randomness: {error}"))),
    }
}
