//! Metrics and status of a cache.

use serde_json::json;
use wirepath_counters::Metric;
use wirepath_counters::Value::{Counter, Gauge};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;

use super::{Cache, CacheStatus};
use crate::metrics::metrics;

const CACHE: &[Metric<CacheStatus>] = metrics! {
    "requests", "Requests received.", |cache| Counter(cache.requests);
    "hits", "Requests answered from the cache.", |cache| Counter(cache.hits);
    "misses", "Requests answered by a cacheable answer of the origin.", |cache| Counter(cache.misses);
    "shared", "Requests answered by a fetch of another request.", |cache| Counter(cache.shared);
    "revalidated", "Entries that the origin confirmed.", |cache| Counter(cache.revalidated);
    "stale", "Requests answered from a stale entry because the origin failed.", |cache| Counter(cache.stale);
    "passed", "Requests passed to the origin whose answers were not kept.", |cache| Counter(cache.passed);
    "failed", "Requests not answered: origin failed or refused, or the client left.", |cache| Counter(cache.failed);
    "broken_fetches", "Fetches that broke off.", |cache| Counter(cache.broken_fetches);
    "evictions", "Entries evicted.", |cache| Counter(cache.evictions);
    "damaged", "Entries found damaged and removed.", |cache| Counter(cache.damaged);
    "connections", "Client connections accepted.", |cache| Counter(cache.connections);
    "refused", "Client connections refused at the limit.", |cache| Counter(cache.refused);
    "from_cache_bytes", "Bytes of bodies sent from files of the cache.", |cache| Counter(cache.bytes_from_cache);
    "from_origin_bytes", "Bytes of bodies received from the origin.", |cache| Counter(cache.bytes_from_origin);
    "entries", "Entries in the cache.", |cache| Gauge(cache.entries);
    "kept_bytes", "Bytes of all entries, including those being fetched.", |cache| Gauge(cache.bytes_kept);
};

/// Adds a cache to metrics and status.
pub(super) fn register(cache: &Cache, metrics: &mut Metrics, status: &mut Status) {
    let shown = cache.clone();
    metrics.register("cache", CACHE, move || shown.status());
    let shown = cache.clone();
    status.add("relay", move || json!(shown.status()));
}
