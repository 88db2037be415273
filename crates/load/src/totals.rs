//! Totals of a run in progress, and the lateness of the client itself.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::distribution::Distribution;
use crate::judge::Change;
use crate::storm::StormTotals;
use crate::target::Scheme;

/// Counts to which all threads add.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) started: AtomicU64,
    pub(crate) playing: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) packets: AtomicU64,
    /// Bytes of judged packets.
    pub(crate) bytes: AtomicU64,
    /// Bytes of media over TCP that were discarded.
    pub(crate) discarded: AtomicU64,
    pub(crate) lost: AtomicI64,
    pub(crate) underruns: AtomicU64,
    /// Greatest lateness since the last snapshot.
    latest_us: AtomicI64,
    /// Number of bodies of media received completely.
    pub(crate) responses: AtomicU64,
    /// Greatest time to the first byte of a judged response since the last snapshot.
    pub(crate) first_byte_us: AtomicI64,
    pub(crate) client: Mutex<ClientLateness>,
    pub(crate) storm: StormTotals,
}

/// Lateness of the client itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientLateness {
    /// Lateness of timers in the event loops.
    pub(crate) event_loops: Distribution,
    /// Time that datagrams waited in the kernel before they were read.
    pub(crate) waiting: Distribution,
}

/// State of a run at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Snapshot {
    /// Seconds since the start.
    pub at_s: f64,
    /// Sessions started so far.
    pub started: u64,
    /// Number of playing sessions.
    pub playing: u64,
    /// Sessions that failed so far.
    pub failed: u64,
    /// Bytes of media received so far: judged media, and media over TCP that the kernel discarded.
    pub bytes: u64,
    /// Underruns so far.
    pub underruns: u64,
    /// Figures of the protocol in use.
    #[serde(flatten)]
    pub protocol: ProtocolSnapshot,
}

/// Figures that only a single protocol has, at one time.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum ProtocolSnapshot {
    /// RTP.
    Rtp {
        /// Packets judged so far.
        packets: u64,
        /// Judged packets lost so far.
        lost: i64,
        /// Greatest lateness of a burst since the previous snapshot.
        latest_us: i64,
    },
    /// HTTP.
    Http {
        /// Bodies received completely so far.
        responses: u64,
        /// Greatest time to the first byte of a judged response since the previous snapshot.
        first_byte_us: i64,
    },
}

impl Default for ProtocolSnapshot {
    fn default() -> ProtocolSnapshot {
        ProtocolSnapshot::Rtp { packets: 0, lost: 0, latest_us: 0 }
    }
}

impl Totals {
    pub(crate) fn change(&self, change: &Change) {
        self.storm.change(change);
        if change.lost != 0 {
            self.lost.fetch_add(change.lost, Relaxed);
        }
        if let Some(lateness) = change.lateness_us {
            self.latest_us.fetch_max(lateness, Relaxed);
        }
        if change.underrun {
            self.underruns.fetch_add(1, Relaxed);
        }
    }

    /// Current state. Resets the greatest times.
    pub(crate) fn snapshot(&self, at_s: f64, scheme: Scheme) -> Snapshot {
        Snapshot {
            at_s,
            started: self.started.load(Relaxed),
            playing: self.playing.load(Relaxed),
            failed: self.failed.load(Relaxed),
            bytes: self.bytes.load(Relaxed) + self.discarded.load(Relaxed),
            underruns: self.underruns.load(Relaxed),
            protocol: match scheme {
                Scheme::Rtsp => ProtocolSnapshot::Rtp {
                    packets: self.packets.load(Relaxed),
                    lost: self.lost.load(Relaxed),
                    latest_us: self.latest_us.swap(0, Relaxed),
                },
                Scheme::Http => ProtocolSnapshot::Http {
                    responses: self.responses.load(Relaxed),
                    first_byte_us: self.first_byte_us.swap(0, Relaxed),
                },
            },
        }
    }
}
