//! What is counted of a cache, declared for `/metrics` and `/api/status`.

use serde_json::json;
use wirepath_relay::cache::{Cache, CacheStatus};
use wirepath_server::metrics::{Metric, Metrics, Value};
use wirepath_server::status::Status;

const CACHE: &[Metric<CacheStatus>] = &[
    Metric {
        name: "requests",
        help: "Requests read",
        unit: None,
        read: |status| Value::Counter(status.requests),
    },
    Metric {
        name: "hits",
        help: "Requests answered from the cache",
        unit: None,
        read: |status| Value::Counter(status.hits),
    },
    Metric {
        name: "misses",
        help: "Requests for which the origin was asked, and whose answer could be kept",
        unit: None,
        read: |status| Value::Counter(status.misses),
    },
    Metric {
        name: "shared",
        help: "Requests that were answered by what another one fetched",
        unit: None,
        read: |status| Value::Counter(status.shared),
    },
    Metric {
        name: "revalidated",
        help: "Entries that the origin said are still good",
        unit: None,
        read: |status| Value::Counter(status.revalidated),
    },
    Metric {
        name: "stale",
        help: "Requests answered by an entry that is not fresh, because the origin failed",
        unit: None,
        read: |status| Value::Counter(status.stale),
    },
    Metric {
        name: "passed",
        help: "Requests and answers that were passed through and not kept",
        unit: None,
        read: |status| Value::Counter(status.passed),
    },
    Metric {
        name: "failed",
        help: "Requests not answered: the origin failed or was not to be asked, they could not be passed on, or the client left",
        unit: None,
        read: |status| Value::Counter(status.failed),
    },
    Metric {
        name: "broken_fetches",
        help: "Fetches that broke after they had begun",
        unit: None,
        read: |status| Value::Counter(status.broken_fetches),
    },
    Metric {
        name: "evictions",
        help: "Entries that went to make room",
        unit: None,
        read: |status| Value::Counter(status.evictions),
    },
    Metric {
        name: "damaged",
        help: "Entries that were found damaged and dropped",
        unit: None,
        read: |status| Value::Counter(status.damaged),
    },
    Metric {
        name: "connections",
        help: "Client connections taken",
        unit: None,
        read: |status| Value::Counter(status.connections),
    },
    Metric {
        name: "refused",
        help: "Client connections refused because there were too many",
        unit: None,
        read: |status| Value::Counter(status.refused),
    },
    Metric {
        name: "from_cache",
        help: "Bytes of bodies that went to clients from the cache's files, also while they were fetched",
        unit: Some("bytes"),
        read: |status| Value::Counter(status.bytes_from_cache),
    },
    Metric {
        name: "from_origin",
        help: "Bytes of bodies that came from the origin",
        unit: Some("bytes"),
        read: |status| Value::Counter(status.bytes_from_origin),
    },
    Metric {
        name: "entries",
        help: "Entries that are kept",
        unit: None,
        read: |status| Value::Gauge(status.entries as f64),
    },
    Metric {
        name: "kept",
        help: "Bytes that entries take, with those that are being fetched",
        unit: Some("bytes"),
        read: |status| Value::Gauge(status.bytes_kept as f64),
    },
];

/// Adds what is counted of a cache to what is shown.
pub(super) fn register(cache: &Cache, metrics: &mut Metrics, status: &mut Status) {
    let seen = cache.clone();
    metrics.register("cache", CACHE, move || seen.status());
    let seen = cache.clone();
    status.add("relay", move || json!(seen.status()));
}
