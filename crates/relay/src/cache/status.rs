//! What a cache counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// What a cache did so far, and what it has now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheStatus {
    /// Client connections taken.
    pub connections: u64,
    /// Client connections refused because there were too many.
    pub refused: u64,
    /// Requests read.
    pub requests: u64,
    /// Requests answered from the cache, or by it because they were to go no further.
    pub hits: u64,
    /// Requests for which the origin was asked, and whose answer could be kept.
    pub misses: u64,
    /// Requests that were answered by what another one fetched.
    pub shared: u64,
    /// Entries that the origin said are still good.
    pub revalidated: u64,
    /// Requests answered by an entry that is not fresh, because the origin failed.
    pub stale: u64,
    /// Requests and answers that were passed through and not kept.
    pub passed: u64,
    /// Requests that could not be answered: the origin failed or was not to be asked, they could not be
    /// passed on, or the client left first. Hits, misses, and what was shared, stale, passed and failed are
    /// all requests, once those that are under way are answered.
    pub failed: u64,
    /// Fetches that broke after they had begun.
    pub broken_fetches: u64,
    /// Entries that went to make room.
    pub evictions: u64,
    /// Entries that were found damaged and dropped.
    pub damaged: u64,
    /// Bytes of bodies that went to clients from the cache's files, also while they were fetched.
    pub bytes_from_cache: u64,
    /// Bytes of bodies that came from the origin.
    pub bytes_from_origin: u64,
    /// Entries that are kept.
    pub entries: u64,
    /// Bytes that they take, with those that are being fetched.
    pub bytes_kept: u64,
}

/// The counters behind it: several threads add, and nothing depends on their order.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) shared: AtomicU64,
    pub(super) revalidated: AtomicU64,
    pub(super) stale: AtomicU64,
    pub(super) passed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) broken_fetches: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) bytes_from_cache: AtomicU64,
    pub(super) bytes_from_origin: AtomicU64,
}

/// One more.
pub(super) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// So many more.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Relaxed);
}

impl Counters {
    /// With what is kept now: entries, and bytes.
    pub(super) fn status(&self, (entries, bytes_kept): (u64, u64)) -> CacheStatus {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        CacheStatus {
            connections: read(&self.connections),
            refused: read(&self.refused),
            requests: read(&self.requests),
            hits: read(&self.hits),
            misses: read(&self.misses),
            shared: read(&self.shared),
            revalidated: read(&self.revalidated),
            stale: read(&self.stale),
            passed: read(&self.passed),
            failed: read(&self.failed),
            broken_fetches: read(&self.broken_fetches),
            evictions: read(&self.evictions),
            damaged: read(&self.damaged),
            bytes_from_cache: read(&self.bytes_from_cache),
            bytes_from_origin: read(&self.bytes_from_origin),
            entries,
            bytes_kept,
        }
    }
}
