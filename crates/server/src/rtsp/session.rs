//! A session: one client plays one presentation. Owned by its connection.

use super::counters::EndReason;
use super::player::{GroupAddress, PlayRange, Reply, SessionPlayback};
use super::registry::SessionSlot;
use super::session_events::{EventKind, SessionEvent, SessionEvents};
use super::session_info::SessionInfo;
use super::session_state::{Phase, SessionState};
use super::shared::Shared;
use super::srtp::TrackKeys;
use std::sync::Arc;
use tokio::sync::oneshot;
use wirepath_counters::Label;
use wirepath_media::rtsp::{Refusal, RtpInfo};
use wirepath_net::DescriptorPermit;
use wirepath_playback::{PlaybackEvent, Position, Scale, StreamPosition};

pub(super) struct Session {
    /// Identifier given to the client.
    pub(super) id: String,
    /// Path of the presentation.
    pub(super) path: Vec<u8>,
    /// True if packets have header extensions of ONVIF replay.
    pub(super) is_replay: bool,
    /// Keys of the tracks, if media are encrypted.
    pub(super) keys: Option<TrackKeys>,
    /// True if it was set up without a user: by a rule, its URL or the callback. Then it continues after the
    /// URL has expired or the rule has changed.
    pub(super) is_without_user: bool,
    /// Tracks that are set up, in this order.
    pub(super) tracks: Vec<SetUpTrack>,
    pub(super) playback: Arc<dyn SessionPlayback>,
    /// Group to which the tracks are sent, if any.
    pub(super) group: Option<GroupAddress>,
    pub(super) info: Arc<SessionInfo>,
    pub(super) shared: Arc<Shared>,
    pub(super) state: SessionState,
    pub(super) events: Arc<SessionEvents>,
    /// Number of the last request to the playback.
    pub(super) last_ticket: u64,
    /// True while the first packet waits for [`Session::release`].
    pub(super) is_held: bool,
    pub(super) slot: SessionSlot,
}

/// A track of a session.
pub(super) struct SetUpTrack {
    /// Index in the presentation.
    pub(super) index: u8,
    /// URL, as the client set it up.
    pub(super) url: String,
    /// Permit for the descriptor of its socket, unless it is counted with the session.
    pub(super) _descriptor: Option<DescriptorPermit>,
}

impl Session {
    /// Key of the session in events.
    pub(super) fn key(&self) -> u64 {
        self.slot.key
    }

    /// Requests playing; returns the number of the request.
    pub(super) fn start(&mut self, range: PlayRange) -> u64 {
        let (ticket, key, events) = self.ticket();
        let reply = Box::new(move |result| {
            events.add(SessionEvent { key, kind: EventKind::Started(ticket, range, result) });
        });
        self.playback.play(range, reply);
        ticket
    }

    /// The supported scale that is nearest to the requested one: 1 if no track of the session has pictures
    /// that can be played alone.
    pub(super) fn nearest_scale(&self, asked: f64) -> Scale {
        let scanned = self.playback.scanned_track();
        let is_set_up = self.tracks.iter().any(|track| Some(track.index) == scanned);
        if is_set_up { Scale::nearest(asked) } else { Scale::NORMAL }
    }

    /// Returns whether a track of the session has pictures that can be decoded alone, for ONVIF replay.
    pub(super) fn has_intra(&self) -> bool {
        let track = self.playback.intra_track();
        self.tracks.iter().any(|set_up| Some(set_up.index) == track)
    }

    /// Requests a pause; returns the number of the request.
    pub(super) fn pause(&mut self) -> Result<u64, Refusal> {
        self.state.pause()?;
        let (ticket, reply) = self.paused();
        self.playback.pause(reply);
        Ok(ticket)
    }

    /// Cancels all requests: nothing is played after this, even if replies are still on their way.
    pub(super) fn cancel(&mut self) {
        let (_, reply) = self.paused();
        self.playback.stop(reply);
        self.rest();
    }

    /// Handles an event of the playback. Returns a reason if the session has to end.
    pub(super) fn handle(&mut self, kind: &EventKind) -> Option<EndReason> {
        match kind {
            // A later request is in progress; only its reply counts.
            EventKind::Started(ticket, ..) | EventKind::Paused(ticket, _) if *ticket != self.last_ticket => {}
            EventKind::Started(_, range, Ok(_)) => {
                self.info.count_play(&*self.playback);
                self.state.started(*range);
                self.info.note_unpaced(range.replay.unpaced);
                self.is_held = self.info.is_interleaved();
                self.publish_phase();
            }
            // The position does not exist and the engine got no request, so the playback continues.
            EventKind::Started(.., Err(_)) if self.playback.progress().is_playing => {}
            EventKind::Started(.., Err(_)) => self.cancel(),
            EventKind::Paused(..) => self.rest(),
            EventKind::Event(PlaybackEvent::Finished) => self.finish(),
            EventKind::Ended => return Some(EndReason::Administrator),
            EventKind::Event(PlaybackEvent::Failed(error)) if error.is_unreachable() => {
                return Some(EndReason::Unreachable);
            }
            EventKind::Event(PlaybackEvent::Failed(error)) => {
                if self.shared.log_session() {
                    tracing::warn!(peer = %self.info.peer, path = self.info.path, %error, "a session failed");
                }
                return Some(EndReason::Failed);
            }
        }
        None
    }

    /// RTP-Info of the tracks that start to play (RFC 2326 section 12.33).
    pub(super) fn rtp_info(&self, position: &Position) -> Vec<RtpInfo> {
        let streams = position.streams.iter();
        let infos = streams.filter_map(|&StreamPosition { stream, sequence, timestamp }| {
            let track = self.tracks.iter().find(|track| track.index == stream)?;
            Some(RtpInfo { url: track.url.clone(), sequence, timestamp })
        });
        infos.collect()
    }

    /// Releases packets that wait for the response to PLAY.
    pub(super) fn release(&mut self) {
        if std::mem::take(&mut self.is_held) {
            self.playback.release();
        }
    }

    /// Stops finally. When the last packet has left, the result is sent, or its sender is dropped.
    pub(super) fn pause_and_drain(&mut self) -> oneshot::Receiver<()> {
        self.info.note_clocks(); // BYE needs them, and the playback's stop when it rests.
        let (drained, when_drained) = oneshot::channel();
        // The receiver may have been dropped already.
        self.playback.stop(Box::new(move |_| _ = drained.send(())));
        when_drained
    }

    /// Ends the session, with a BYE unless the client is unreachable. No packet may follow (RFC 3550 section
    /// 6.3.7), so call this after the playback is drained.
    pub(super) fn end(self, reason: EndReason) {
        self.info.read_waiting();
        if self.shared.log_session() {
            let (peer, path, reason) = (self.info.peer, &self.info.path, reason.name());
            tracing::info!(%peer, path, reason, "session ends");
        }
        self.shared.reports.remove(&self.info);
        if reason != EndReason::Unreachable {
            self.info.send_bye();
        }
        self.info.counters.sessions_ended.increment(reason);
    }

    /// Number of a request to pause, and its reply.
    fn paused(&mut self) -> (u64, Reply<u64>) {
        let (ticket, key, events) = self.ticket();
        let reply = Box::new(move |result| {
            events.add(SessionEvent { key, kind: EventKind::Paused(ticket, result) });
        });
        (ticket, reply)
    }

    fn ticket(&mut self) -> (u64, u64, Arc<SessionEvents>) {
        self.last_ticket += 1;
        (self.last_ticket, self.key(), Arc::clone(&self.events))
    }

    fn finish(&mut self) {
        let was_playing = matches!(self.state.phase(), Phase::Playing { .. });
        match self.state.finished() {
            Some(next) => _ = self.start(next),
            None if was_playing => self.publish_phase(),
            None => {}
        }
    }

    fn rest(&mut self) {
        self.state.paused();
        if self.state.phase() == Phase::Ready {
            self.publish_phase();
        }
    }

    /// Updates the phase for RTCP and the status.
    fn publish_phase(&self) {
        self.shared.reports.note_phase(&self.info, self.state.phase());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.reports.remove(&self.info);
        self.info.counters.sessions.decrement();
        self.tracks.iter().for_each(|_| self.info.counters.tracks.decrement());
        if self.info.is_interleaved() {
            self.info.counters.sessions_interleaved.decrement();
        }
    }
}
