//! What an engine thread counts: written by that thread alone, read by anybody.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::lateness::Lateness;

/// A number that one thread counts up and others read. No atomic addition, so it costs as much as a plain one.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the thread that owns the counter may.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of one engine thread, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounters {
    pub(crate) trains: Counter,
    pub(crate) packets: Counter,
    pub(crate) octets: Counter,
    pub(crate) packets_lost: Counter,
    pub(crate) full: Counter,
    pub(crate) slips: Counter,
    pub(crate) cold_waits: Counter,
    pub(crate) wakeups: Counter,
    pub(crate) batches: Counter,
    pub(crate) download_octets: Counter,
    pub(crate) stream_octets: Counter,
    /// Playbacks, downloads and streams on this thread. Added to by whoever starts one, so that the next one goes elsewhere.
    pub(crate) playbacks: AtomicU64,
    pub(crate) downloads: AtomicU64,
    pub(crate) streams: AtomicU64,
    pub(crate) lateness: Lateness,
}

/// What all engine threads counted since they were started.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Trains sent.
    pub trains: u64,
    /// RTP packets sent.
    pub packets: u64,
    /// RTP payload bytes sent.
    pub octets: u64,
    /// Packets that the network did not take (no route, a filter, a device that is down).
    pub packets_lost: u64,
    /// Times that a socket had no room for a train, which was then tried again.
    pub full: u64,
    /// Times that a playback was so late that its timetable was moved instead of being caught up with.
    pub slips: u64,
    /// Times that a playback or download had to wait for bytes to be brought in or packed.
    pub cold_waits: u64,
    /// Times that an engine thread went to sleep and was woken.
    pub wakeups: u64,
    /// Kernel calls that sent trains of many playbacks at once.
    pub batches: u64,
    /// Bytes sent by downloads.
    pub download_octets: u64,
    /// Bytes that streams read and wrote.
    pub stream_octets: u64,
    /// Playbacks that exist, playing or not.
    pub playbacks: u64,
    /// Downloads that run.
    pub downloads: u64,
    /// Streams that run.
    pub streams: u64,
    /// How late trains left.
    pub lateness: crate::LatenessSnapshot,
}

impl Counters {
    /// Adds one thread's.
    pub(crate) fn add(&mut self, thread: &ThreadCounters) {
        self.trains += thread.trains.value();
        self.packets += thread.packets.value();
        self.octets += thread.octets.value();
        self.packets_lost += thread.packets_lost.value();
        self.full += thread.full.value();
        self.slips += thread.slips.value();
        self.cold_waits += thread.cold_waits.value();
        self.wakeups += thread.wakeups.value();
        self.batches += thread.batches.value();
        self.download_octets += thread.download_octets.value();
        self.stream_octets += thread.stream_octets.value();
        self.playbacks += thread.playbacks.load(Relaxed);
        self.downloads += thread.downloads.load(Relaxed);
        self.streams += thread.streams.load(Relaxed);
        thread.lateness.add_to(&mut self.lateness);
    }
}
