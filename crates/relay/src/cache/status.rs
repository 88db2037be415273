//! Counters of a cache, its metrics and its status.

use serde::Serialize;
use serde_json::json;
use wirepath_counters::{Counter, Gauge, counters};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;

use super::Cache;

counters! {
    /// Counters of a cache.
    pub(super) struct Counters;
    /// Counters of a cache at one time. Each answered request is one of hits, misses, shared, stale, passed
    /// and failed.
    #[derive(Serialize)]
    pub struct CacheStatus;

    /// Requests received.
    requests: Counter,
    /// Requests answered from the cache.
    hits: Counter,
    /// Requests answered by a cacheable answer of the origin.
    misses: Counter,
    /// Requests answered by a fetch of another request.
    shared: Counter,
    /// Entries that the origin confirmed.
    revalidated: Counter,
    /// Requests answered from a stale entry because the origin failed.
    stale: Counter,
    /// Requests passed to the origin whose answers were not kept.
    passed: Counter,
    /// Requests not answered: origin failed or refused, or the client left.
    failed: Counter,
    /// Fetches that broke off.
    broken_fetches: Counter,
    /// Entries evicted.
    evictions: Counter,
    /// Entries found damaged and removed.
    damaged: Counter,
    /// Client connections accepted.
    connections: Counter,
    /// Client connections refused at the limit.
    refused: Counter,
    /// Bytes of bodies sent from files of the cache.
    #[serde(rename = "bytes_from_cache")]
    from_cache_bytes: Counter,
    /// Bytes of bodies received from the origin.
    #[serde(rename = "bytes_from_origin")]
    from_origin_bytes: Counter,
    /// Entries in the cache.
    entries: Gauge,
    /// Bytes of all entries, including those being fetched.
    #[serde(rename = "bytes_kept")]
    kept_bytes: Gauge,
}

/// Adds a cache to metrics and status.
pub(super) fn register(cache: &Cache, metrics: &mut Metrics, status: &mut Status) {
    let shown = cache.clone();
    metrics.register("cache", CacheStatus::METRICS, move || shown.status());
    let shown = cache.clone();
    status.add("relay", move || json!(shown.status()));
}
