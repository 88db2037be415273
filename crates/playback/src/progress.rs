//! Progress of a playback, written by its engine thread and read by others.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use wirepath_counters::LocalCounter;
use wirepath_datapath::DataPath;

/// Progress of a playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// RTP packets sent.
    pub packets: u64,
    /// RTP payload bytes sent.
    pub payload_bytes: u64,
    /// Packets that the network did not take.
    pub packets_lost: u64,
    /// Departure of the last train sent, in microseconds from the start of the source.
    pub position_us: u64,
    /// The RTP clock, while the playback plays.
    pub clock: Option<RtpClock>,
    /// Skips forward because a client over TCP read too slowly.
    pub forward_skips: u64,
    /// The data path that sent the last train, or will be tried for the first; none over TCP.
    pub path: Option<DataPath>,
    /// Length of the last burst in microseconds; 0 before the first.
    pub burst_us: u64,
}

/// Relation of a playback's RTP timestamps to time while it plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpClock {
    /// A time, in microseconds of CLOCK_MONOTONIC.
    pub at_us: u64,
    /// RTP timestamp of a packet that leaves at that time.
    pub timestamp: u32,
}

#[derive(Debug)]
pub(crate) struct SharedProgress {
    pub(crate) packets: LocalCounter,
    pub(crate) payload_bytes: LocalCounter,
    pub(crate) packets_lost: LocalCounter,
    pub(crate) forward_skips: LocalCounter,
    position_us: AtomicU64,
    /// Index in [`DataPath::ALL`]; [`NO_PATH`] before one is set.
    path: AtomicU8,
    burst_us: AtomicU64,
    clock: Mutex<Option<RtpClock>>,
}

const NO_PATH: u8 = u8::MAX;

impl Default for SharedProgress {
    fn default() -> SharedProgress {
        SharedProgress {
            packets: LocalCounter::default(),
            payload_bytes: LocalCounter::default(),
            packets_lost: LocalCounter::default(),
            forward_skips: LocalCounter::default(),
            position_us: AtomicU64::default(),
            path: AtomicU8::new(NO_PATH),
            burst_us: AtomicU64::default(),
            clock: Mutex::default(),
        }
    }
}

impl SharedProgress {
    pub(crate) fn read(&self) -> Progress {
        Progress {
            packets: self.packets.value(),
            payload_bytes: self.payload_bytes.value(),
            packets_lost: self.packets_lost.value(),
            position_us: self.position_us(),
            clock: *self.clock.lock(),
            forward_skips: self.forward_skips.value(),
            path: DataPath::ALL.get(usize::from(self.path.load(Relaxed))).copied(),
            burst_us: self.burst_us.load(Relaxed),
        }
    }

    pub(crate) fn position_us(&self) -> u64 {
        self.position_us.load(Relaxed)
    }

    pub(crate) fn set_position(&self, at_us: u64) {
        self.position_us.store(at_us, Relaxed);
    }

    pub(crate) fn set_path(&self, path: DataPath) {
        let index = DataPath::ALL.iter().position(|other| *other == path).unwrap_or_default();
        self.path.store(index as u8, Relaxed);
    }

    pub(crate) fn set_burst(&self, burst_us: u64) {
        self.burst_us.store(burst_us, Relaxed);
    }

    pub(crate) fn set_clock(&self, clock: Option<RtpClock>) {
        *self.clock.lock() = clock;
    }
}
