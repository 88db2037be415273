//! How far a playback is, for those who watch it from other threads.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use wirepath_datapath::DataPath;

use super::RtpClock;
use crate::counters::Counter;

/// What a playback did so far; written by its engine thread.
#[derive(Debug, Default)]
pub struct Progress {
    pub(crate) packets: Counter,
    pub(crate) octets: Counter,
    pub(crate) packets_lost: Counter,
    pub(crate) position_us: AtomicU64,
    pub(crate) path: AtomicU8,
    pub(crate) clock: Mutex<Option<RtpClock>>,
}

impl Progress {
    /// RTP packets sent.
    pub fn packets(&self) -> u64 {
        self.packets.value()
    }

    /// RTP payload bytes sent.
    pub fn octets(&self) -> u64 {
        self.octets.value()
    }

    /// Packets that the network did not take.
    pub fn packets_lost(&self) -> u64 {
        self.packets_lost.value()
    }

    /// Departure of the last train sent, in microseconds from the start of the source.
    pub fn position_us(&self) -> u64 {
        self.position_us.load(Relaxed)
    }

    /// The data path that the last train left by, or the first will be tried by.
    pub fn path(&self) -> DataPath {
        DataPath::ALL[usize::from(self.path.load(Relaxed)) % DataPath::ALL.len()]
    }

    /// The RTP clock, while it plays.
    pub fn clock(&self) -> Option<RtpClock> {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_path(&self, path: DataPath) {
        let place = DataPath::ALL.iter().position(|other| *other == path).unwrap_or_default();
        self.path.store(place as u8, Relaxed);
    }

    pub(crate) fn set_clock(&self, clock: Option<RtpClock>) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = clock;
    }
}
