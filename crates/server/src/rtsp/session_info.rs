//! A session as its RTCP task and the status page see it.

use super::counters::Counters;
use super::player::SessionPlayback;
use super::rtcp_path::RtcpPath;
use super::session_state::Phase;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::Instant;
use wirepath_datapath::DataPath;
use wirepath_media::rtcp::Reception;
use wirepath_media::rtp::CLOCK_HZ;
use wirepath_playback::{Progress, RtpClock};

/// Names of a session's client for the status page.
pub(super) struct ClientName {
    /// Number of the session.
    pub(super) number: u64,
    /// Name that the client gives itself.
    pub(super) agent: Option<String>,
}

/// Most characters of a client's name that are kept.
const AGENT_CHARACTERS: usize = 80;

impl ClientName {
    /// The client of a session with this number, with the `User-Agent` of its request if there is one.
    pub(super) fn new(number: u64, agent: Option<&str>) -> ClientName {
        let agent = agent.map(|agent| agent.chars().take(AGENT_CHARACTERS).collect());
        ClientName { number, agent }
    }
}

/// A session as seen from outside its connection.
pub(super) struct SessionInfo {
    pub(super) peer: SocketAddr,
    pub(super) path: String,
    since: SystemTime,
    /// Number of the session for the status page. Not its identifier, which only its client knows.
    number: u64,
    /// Name that the client gives itself.
    agent: Option<String>,
    has_played: AtomicBool,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) rtcp: RtcpPath,
    /// Weak: the session's connection ends the playback by dropping it.
    playback: Weak<dyn SessionPlayback>,
    pub(super) ssrc: u32,
    pub(super) cname: String,
    /// Time of the client's last request or report.
    heard: Mutex<Instant>,
    pub(super) counters: Arc<Counters>,
    /// The client's last report, and the round-trip time if that is known.
    pub(super) reception: Mutex<Option<(Reception, Option<Duration>)>>,
    /// The clock as it was when packets were last being sent.
    pub(super) clock: Mutex<Option<RtpClock>>,
    /// BYE was the last packet sent.
    pub(super) bye_sent: AtomicBool,
}

impl SessionInfo {
    pub(super) fn new(
        peer: SocketAddr,
        local: IpAddr,
        path: &[u8],
        rtcp: RtcpPath,
        playback: &Arc<dyn SessionPlayback>,
        counters: Arc<Counters>,
        client: ClientName,
    ) -> SessionInfo {
        SessionInfo {
            peer,
            path: String::from_utf8_lossy(path).into_owned(),
            since: SystemTime::now(),
            number: client.number,
            agent: client.agent,
            has_played: AtomicBool::new(false),
            phase: watch::Sender::new(Phase::Ready),
            rtcp,
            playback: Arc::downgrade(playback),
            ssrc: playback.ssrc(),
            cname: format!("wirepath@{local}"),
            heard: Mutex::new(Instant::now()),
            counters,
            reception: Mutex::default(),
            clock: Mutex::default(),
            bye_sent: AtomicBool::new(false),
        }
    }

    /// Returns whether the session's packets go over the RTSP connection, whose life is a sign of life then.
    pub(super) fn is_interleaved(&self) -> bool {
        self.rtcp.channels().is_some()
    }

    /// The lower transport, for log and status.
    pub(super) fn transport(&self) -> &'static str {
        if self.is_interleaved() { "tcp" } else { "udp" }
    }

    /// Notes a sign of life of the client.
    pub(super) fn note_heard(&self) {
        *self.heard.lock() = Instant::now();
    }

    /// Time of the client's last sign of life.
    pub(super) fn heard(&self) -> Instant {
        *self.heard.lock()
    }

    /// Counts a PLAY that started playing; the first one is a play of the asset, too.
    pub(super) fn count_play(&self, playback: &dyn SessionPlayback) {
        self.counters.plays.increment();
        if !self.has_played.swap(true, Relaxed) {
            playback.count_play();
        }
    }

    /// Progress of the playback, unless it is over.
    pub(super) fn progress(&self) -> Option<Progress> {
        Some(self.playback.upgrade()?.progress())
    }

    /// The session for `/api/status`, unless its playback is over.
    pub(super) fn json(&self) -> Option<Json> {
        let playback = self.playback.upgrade()?;
        let progress = playback.progress();
        let state = match *self.phase.borrow() {
            Phase::Ready => "resting",
            Phase::Playing { .. } => "playing",
            Phase::Ended { .. } => "ended",
        };
        let since_s = self.since.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let reception = self.reception.lock().map(|(reception, round_trip)| {
            json!({
                "packets_lost": reception.cumulative_lost,
                "fraction_lost": f64::from(reception.fraction_lost) / 256.0,
                "jitter_ms": f64::from(reception.jitter) * 1000.0 / f64::from(CLOCK_HZ),
                "round_trip_ms": round_trip.map(|time| time.as_secs_f64() * 1000.0),
            })
        });
        Some(json!({
            "id": self.number,
            "client": self.peer.to_string(),
            "agent": self.agent,
            "asset": self.path,
            "since_s": since_s,
            "state": state,
            "position_s": progress.position_us as f64 / 1e6,
            "packets": progress.packets,
            "payload_bytes": progress.payload_bytes,
            "packets_lost_here": progress.packets_lost,
            "forward_skips": progress.forward_skips,
            "transport": self.transport(),
            "burst_ms": progress.burst_us as f64 / 1000.0,
            "data_path": progress.path.map_or("interleaved", DataPath::name),
            "data_path_reason": playback.reason(),
            "receiver_report": reception,
        }))
    }
}
