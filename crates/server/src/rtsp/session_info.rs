//! A session from the view of its RTCP and of the status page.

use super::counters::Counters;
use super::player::SessionPlayback;
use super::rtcp_path::LowerTransport;
use super::session_state::Phase;
use super::track::{Track, TrackReport};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::SystemTime;
use tokio::time::Instant;
use wirepath_datapath::DataPath;
use wirepath_media::rtsp::ChannelPair;
use wirepath_media::srtp::CIPHER_SUITE;

/// Names of a session's client for the status page.
pub(super) struct ClientName {
    /// Number of the session.
    pub(super) number: u64,
    /// User agent of the client.
    pub(super) agent: Option<String>,
}

/// Most characters of a user agent that are kept.
const AGENT_CHARACTERS: usize = 80;

impl ClientName {
    /// The client of a session with this number, with the `User-Agent` of its request if there is one.
    pub(super) fn new(number: u64, agent: Option<&str>) -> ClientName {
        let agent = agent.map(|agent| agent.chars().take(AGENT_CHARACTERS).collect());
        ClientName { number, agent }
    }
}

/// Phase of a session, and the due time of its RTCP.
#[derive(Default)]
pub(super) struct RtcpState {
    pub(super) phase: Phase,
    pub(super) due: Option<Instant>,
}

/// A session from outside its connection.
pub(super) struct SessionInfo {
    pub(super) peer: SocketAddr,
    pub(super) path: String,
    since: SystemTime,
    /// Number of the session for the status page; not its identifier, which only its client knows.
    pub(super) number: u64,
    /// User agent of the client.
    agent: Option<String>,
    has_played: AtomicBool,
    /// Its phase, and the due time of its RTCP.
    pub(super) rtcp: Mutex<RtcpState>,
    /// The tracks that are set up, in this order.
    tracks: Mutex<Vec<Track>>,
    transport: LowerTransport,
    /// Media are SRTP.
    is_protected: bool,
    /// Weak, since the session's connection ends the playback by dropping it.
    playback: Weak<dyn SessionPlayback>,
    local: IpAddr,
    /// Time of the client's last request or report.
    heard: Mutex<Instant>,
    pub(super) counters: Arc<Counters>,
    /// Packets leave as fast as the connection takes them, so that reports have no times.
    is_unpaced: AtomicBool,
    /// BYE was the last packet sent.
    pub(super) bye_sent: AtomicBool,
}

impl SessionInfo {
    pub(super) fn new(
        peer: SocketAddr,
        local: IpAddr,
        path: &[u8],
        track: Track,
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
            rtcp: Mutex::default(),
            transport: track.rtcp.transport(),
            is_protected: track.srtcp.is_some(),
            tracks: Mutex::new(vec![track]),
            playback: Arc::downgrade(playback),
            local,
            heard: Mutex::new(Instant::now()),
            counters,
            is_unpaced: AtomicBool::new(false),
            bye_sent: AtomicBool::new(false),
        }
    }

    /// Returns whether the session's packets go over the RTSP connection, so that the connection keeps it
    /// alive.
    pub(super) fn is_interleaved(&self) -> bool {
        self.transport == LowerTransport::Tcp
    }

    /// Adds a track that is set up.
    pub(super) fn add_track(&self, track: Track) {
        self.tracks.lock().push(track);
    }

    /// Locks the tracks that are set up and calls a function with them.
    pub(super) fn with_tracks<T>(&self, work: impl FnOnce(&mut [Track]) -> T) -> T {
        work(&mut self.tracks.lock())
    }

    /// Reads datagrams of the client that still wait to be read.
    pub(super) fn read_waiting(&self) {
        // The lock is not held, since handling the received data takes it.
        let ways: Vec<_> =
            self.with_tracks(|tracks| tracks.iter().map(|track| Arc::clone(&track.rtcp)).collect());
        ways.iter().for_each(|rtcp| rtcp.read_waiting());
    }

    /// Returns whether a track has this channel for RTCP.
    pub(super) fn has_rtcp_channel(&self, channel: u8) -> bool {
        let has = |track: &Track| track.rtcp.channels().is_some_and(|channels| channels.rtcp == channel);
        self.with_tracks(|tracks| tracks.iter().any(has))
    }

    /// Channels of all tracks, if the session is interleaved.
    pub(super) fn channels(&self) -> Vec<ChannelPair> {
        self.with_tracks(|tracks| tracks.iter().filter_map(|track| track.rtcp.channels()).collect())
    }

    /// Canonical name of the sources in RTCP (RFC 3550 section 6.5.1).
    pub(super) fn cname(&self) -> String {
        format!("wirepath@{}", self.local)
    }

    /// The lower transport of all tracks.
    pub(super) fn transport(&self) -> LowerTransport {
        self.transport
    }

    /// Notes whether packets leave as fast as the connection takes them.
    pub(super) fn note_unpaced(&self, is_unpaced: bool) {
        self.is_unpaced.store(is_unpaced, Relaxed);
    }

    /// Returns whether packets leave as fast as the connection takes them.
    pub(super) fn is_unpaced(&self) -> bool {
        self.is_unpaced.load(Relaxed)
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

    /// The playback, unless it is over.
    pub(super) fn playback(&self) -> Option<Arc<dyn SessionPlayback>> {
        self.playback.upgrade()
    }

    /// Name of a data path; encrypted packets have their own paths.
    fn data_path(&self, path: Option<DataPath>) -> &'static str {
        match (self.is_protected, path) {
            (false, path) => path.map_or("interleaved", DataPath::name),
            (true, None) => "srtp_interleaved",
            (true, Some(path)) if path.segments() => "srtp_gso",
            (true, Some(_)) => "srtp_send",
        }
    }

    /// The session for `/api/status`, unless its playback has ended.
    pub(super) fn json(&self) -> Option<Json> {
        let playback = self.playback.upgrade()?;
        let progress = playback.progress();
        let state = match self.rtcp.lock().phase {
            Phase::Ready => "resting",
            Phase::Playing { .. } => "playing",
            Phase::Ended { .. } => "ended",
        };
        let since_s = self.since.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let tracks: Vec<Json> = self.with_tracks(|tracks| {
            tracks.iter().map(|track| track.json(playback.track_progress(track.index))).collect()
        });
        let report = self.with_tracks(|tracks| {
            let reports = tracks.iter().filter_map(|track| track.report.as_ref());
            reports.max_by_key(|report| report.reception.fraction_lost).map(TrackReport::json)
        });
        Some(json!({
            "id": self.number,
            "client": self.peer.to_string(),
            "agent": self.agent,
            "asset": playback.asset().unwrap_or(&self.path),
            "since_s": since_s,
            "state": state,
            "position_s": progress.position_us as f64 / 1e6,
            "speed": progress.speed.factor(),
            "scale": progress.scale.factor(),
            "packets": progress.packets,
            "payload_bytes": progress.payload_bytes,
            "packets_lost_here": progress.packets_lost,
            "forward_skips": progress.forward_skips,
            "transport": self.transport().name(),
            "burst_ms": progress.burst_us as f64 / 1000.0,
            "srtp": self.is_protected.then_some(CIPHER_SUITE),
            "data_path": self.data_path(progress.path),
            "data_path_reason": playback.reason(),
            "receiver_report": report,
            "tracks": tracks,
        }))
    }
}
