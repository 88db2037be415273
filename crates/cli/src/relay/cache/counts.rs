//! What is counted of a cache, declared for `/metrics` and `/api/status`.

use serde_json::json;
use wirepath_counters::{Metric, Value};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;
use wirepath_relay::cache::{Cache, CacheStatus};

const CACHE: &[Metric<CacheStatus>] = &[
    Metric::new("requests", "Requests read.", |status| Value::Counter(status.requests)),
    Metric::new("hits", "Requests answered from the cache.", |status| Value::Counter(status.hits)),
    Metric::new(
        "misses",
        "Requests for which the origin was asked, and whose answer could be kept.",
        |status| Value::Counter(status.misses),
    ),
    Metric::new("shared", "Requests that were answered by what another one fetched.", |status| {
        Value::Counter(status.shared)
    }),
    Metric::new("revalidated", "Entries that the origin said are still good.", |status| {
        Value::Counter(status.revalidated)
    }),
    Metric::new(
        "stale",
        "Requests answered by an entry that is not fresh, because the origin failed.",
        |status| Value::Counter(status.stale),
    ),
    Metric::new("passed", "Requests and answers that were passed through and not kept.", |status| {
        Value::Counter(status.passed)
    }),
    Metric::new(
        "failed",
        "Requests not answered: the origin failed or was not to be asked, they could not be passed on, or the client left.",
        |status| Value::Counter(status.failed),
    ),
    Metric::new("broken_fetches", "Fetches that broke after they had begun.", |status| {
        Value::Counter(status.broken_fetches)
    }),
    Metric::new("evictions", "Entries that went to make room.", |status| Value::Counter(status.evictions)),
    Metric::new("damaged", "Entries that were found damaged and dropped.", |status| {
        Value::Counter(status.damaged)
    }),
    Metric::new("connections", "Client connections taken.", |status| Value::Counter(status.connections)),
    Metric::new("refused", "Client connections refused because there were too many.", |status| {
        Value::Counter(status.refused)
    }),
    Metric::new(
        "from_cache_bytes",
        "Bytes of bodies that went to clients from the cache's files, also while they were fetched.",
        |status| Value::Counter(status.bytes_from_cache),
    ),
    Metric::new("from_origin_bytes", "Bytes of bodies that came from the origin.", |status| {
        Value::Counter(status.bytes_from_origin)
    }),
    Metric::new("entries", "Entries that are kept.", |status| Value::Gauge(status.entries)),
    Metric::new("kept_bytes", "Bytes that entries take, with those that are being fetched.", |status| {
        Value::Gauge(status.bytes_kept)
    }),
];

/// Adds what is counted of a cache to what is shown.
pub(super) fn register(cache: &Cache, metrics: &mut Metrics, status: &mut Status) {
    let seen = cache.clone();
    metrics.register("cache", CACHE, move || seen.status());
    let seen = cache.clone();
    status.add("relay", move || json!(seen.status()));
}
