//! Totals of a run while it goes on, and how late the client itself is.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::distribution::Distribution;
use crate::judge::Change;

/// Counts that every thread adds to.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) started: AtomicU64,
    pub(crate) playing: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) packets: AtomicU64,
    /// Bytes of judged packets.
    pub(crate) bytes: AtomicU64,
    /// Bytes of media over TCP that were thrown away.
    pub(crate) discarded: AtomicU64,
    pub(crate) lost: AtomicI64,
    pub(crate) underruns: AtomicU64,
    /// Greatest lateness since the last sample.
    latest_us: AtomicI64,
    pub(crate) client: Mutex<ClientLateness>,
}

/// Lateness of the client itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientLateness {
    /// Of its event loops, by a timer.
    pub(crate) event_loops: Distribution,
    /// Time that datagrams waited in the kernel until they were read.
    pub(crate) waiting: Distribution,
}

/// State of a run at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Snapshot {
    /// Seconds since the start.
    pub at_s: f64,
    /// Sessions started so far.
    pub started: u64,
    /// Sessions that play.
    pub playing: u64,
    /// Sessions that failed so far.
    pub failed: u64,
    /// Packets judged so far.
    pub packets: u64,
    /// Bytes of media received so far, judged or thrown away by the kernel over TCP.
    pub bytes: u64,
    /// Judged packets lost so far.
    pub lost: i64,
    /// Underruns so far.
    pub underruns: u64,
    /// Greatest lateness of a burst since the snapshot before.
    pub latest_us: i64,
}

impl Totals {
    pub(crate) fn change(&self, change: &Change) {
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

    /// State now; the greatest lateness begins anew.
    pub(crate) fn snapshot(&self, at_s: f64) -> Snapshot {
        Snapshot {
            at_s,
            started: self.started.load(Relaxed),
            playing: self.playing.load(Relaxed),
            failed: self.failed.load(Relaxed),
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed) + self.discarded.load(Relaxed),
            lost: self.lost.load(Relaxed),
            underruns: self.underruns.load(Relaxed),
            latest_us: self.latest_us.swap(0, Relaxed),
        }
    }
}
