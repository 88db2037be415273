//! A session as others see it: its RTCP task, the status page.

use super::counters::Counters;
use super::player::Playback;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::Instant;
use wirepath_media::rtcp::{NtpTime, Reception, SenderState};
use wirepath_media::rtp::CLOCK_HZ;
use wirepath_net::{ClientLimits, Exceeded, Permit};
use wirepath_playback::{Progress, RtpClock};

/// State of a session, for its RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Set up or paused.
    Resting,
    /// Packets are being sent.
    Playing,
    /// All that was asked for has been sent.
    Ended,
}

/// A session for the status page.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// The client.
    pub peer: SocketAddr,
    /// Path of what it plays.
    pub path: String,
    /// When it was set up.
    pub since: SystemTime,
    /// State.
    pub stage: Stage,
    /// Progress of its playback.
    pub progress: Progress,
    /// Reason for its first data path.
    pub reason: String,
    /// The client's last report, and the round-trip time if that is known.
    pub reception: Option<(Reception, Option<Duration>)>,
}

impl SessionStatus {
    /// As `/api/status` shows it.
    pub(super) fn json(&self) -> serde_json::Value {
        let stage = match self.stage {
            Stage::Resting => "resting",
            Stage::Playing => "playing",
            Stage::Ended => "ended",
        };
        let since_s = self.since.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let reception = self.reception.as_ref().map(|(reception, round_trip)| {
            json!({
                "packets_lost": reception.cumulative_lost,
                "fraction_lost": f64::from(reception.fraction_lost) / 256.0,
                "jitter_ms": f64::from(reception.jitter) * 1000.0 / f64::from(CLOCK_HZ),
                "round_trip_ms": round_trip.map(|time| time.as_secs_f64() * 1000.0),
            })
        });
        json!({
            "client": self.peer.to_string(),
            "asset": self.path,
            "since_s": since_s,
            "state": stage,
            "position_s": self.progress.position_us as f64 / 1e6,
            "packets": self.progress.packets,
            "payload_bytes": self.progress.payload_bytes,
            "packets_lost_here": self.progress.packets_lost,
            "data_path": self.progress.path.name(),
            "data_path_reason": self.reason,
            "receiver_report": reception,
        })
    }
}

/// A session as seen from outside its connection.
pub(super) struct Record {
    pub(super) peer: SocketAddr,
    pub(super) path: String,
    pub(super) since: SystemTime,
    pub(super) stage: watch::Sender<Stage>,
    pub(super) socket: UdpSocket,
    /// Weak: the session's connection ends the playback by dropping it, whoever still looks at this.
    pub(super) playback: Weak<dyn Playback>,
    pub(super) ssrc: u32,
    pub(super) cname: String,
    pub(super) heard: Heard,
    pub(super) counters: Arc<Counters>,
    pub(super) reception: Mutex<Option<(Reception, Option<Duration>)>>,
    /// The clock as it was when packets were last being sent.
    pub(super) clock: Mutex<Option<RtpClock>>,
    /// BYE was the last that was sent.
    pub(super) bye_sent: AtomicBool,
}

impl Record {
    /// Sends a sender's report with its name (RFC 3550 section 6.4.1), if there is anything to report.
    pub(super) fn report(&self) {
        if let Some(state) = self.sender_state() {
            self.bye_sent.store(false, Relaxed);
            self.counters.sender_reports.increment();
            self.send(&state.report(&self.cname));
        }
    }

    /// Says that no more is sent, once; a source that never was heard does not (RFC 3550 section 6.3.7).
    pub(super) fn send_bye(&self) {
        if let Some(state) = self.sender_state()
            && !self.bye_sent.swap(true, Relaxed)
        {
            self.counters.rtcp_byes.increment();
            self.send(&state.bye(&self.cname));
        }
    }

    /// The session for the status page, unless its playback is over.
    pub(super) fn status(&self) -> Option<SessionStatus> {
        let playback = self.playback.upgrade()?;
        Some(SessionStatus {
            peer: self.peer,
            path: self.path.clone(),
            since: self.since,
            stage: *self.stage.borrow(),
            progress: playback.progress(),
            reason: playback.reason().to_owned(),
            reception: *self.reception.lock(),
        })
    }

    /// The clock as it is, or was when packets were last being sent.
    pub(super) fn note_clock(&self) -> Option<RtpClock> {
        let now = self.progress().and_then(|progress| progress.clock);
        let mut last = self.clock.lock();
        *last = now.or(*last);
        *last
    }

    fn progress(&self) -> Option<Progress> {
        Some(self.playback.upgrade()?.progress())
    }

    fn sender_state(&self) -> Option<SenderState> {
        let progress = self.progress()?;
        let clock = self.note_clock()?;
        let elapsed_us = monotonic_us().wrapping_sub(clock.at_us) as i64;
        let ticks = i128::from(elapsed_us) * i128::from(CLOCK_HZ) / 1_000_000;
        Some(SenderState {
            ssrc: self.ssrc,
            now: ntp_now(),
            timestamp: clock.timestamp.wrapping_add(ticks as u32),
            packets: progress.packets as u32,
            octets: progress.payload_bytes as u32,
        })
    }

    /// A report that the network does not take is not missed: the next one says more.
    fn send(&self, datagram: &[u8]) {
        if let Err(error) = self.socket.try_send(datagram) {
            tracing::debug!(peer = %self.peer, %error, "RTCP was not sent");
        }
    }
}

/// The time now as RTCP writes it.
pub(super) fn ntp_now() -> NtpTime {
    NtpTime::from_unix(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

fn monotonic_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// When something was last heard of a client.
#[derive(Debug)]
pub(super) struct Heard {
    begin: Instant,
    after_ms: AtomicU64,
}

impl Heard {
    pub(super) fn now() -> Self {
        Self { begin: Instant::now(), after_ms: AtomicU64::new(0) }
    }

    pub(super) fn again(&self) {
        self.after_ms.store(self.begin.elapsed().as_millis() as u64, Relaxed);
    }

    pub(super) fn at(&self) -> Instant {
        self.begin + Duration::from_millis(self.after_ms.load(Relaxed))
    }
}

/// All sessions of a door, at most so many, and so many from one address.
pub(super) struct Registry {
    limits: Arc<ClientLimits>,
    last_key: AtomicU64,
    records: Mutex<HashMap<u64, Arc<Record>>>,
}

/// A session's place among all; given back when it is dropped.
pub(super) struct Place {
    registry: Arc<Registry>,
    pub(super) key: u64,
    _permit: Permit,
}

impl Registry {
    pub(super) fn new(most: usize, most_per_address: usize) -> Arc<Self> {
        let limits = ClientLimits::new(most, most_per_address);
        Arc::new(Self { limits, last_key: AtomicU64::default(), records: Mutex::default() })
    }

    /// A place for one more session of a client at this address, if there is one.
    pub(super) fn reserve(self: &Arc<Self>, address: IpAddr) -> Result<Place, Exceeded> {
        let permit = self.limits.admit(address)?;
        let key = self.last_key.fetch_add(1, Relaxed);
        Ok(Place { registry: Arc::clone(self), key, _permit: permit })
    }

    pub(super) fn statuses(&self) -> Vec<SessionStatus> {
        let records: Vec<_> = self.records.lock().values().cloned().collect();
        records.iter().filter_map(|record| record.status()).collect()
    }
}

impl Place {
    /// Makes the session visible.
    pub(super) fn fill(&self, record: Arc<Record>) {
        self.registry.records.lock().insert(self.key, record);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.records.lock().remove(&self.key);
    }
}
