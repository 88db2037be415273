//! What is counted of a proxy, declared for `/metrics` and `/api/status`.

use serde_json::json;
use wirepath_counters::{Metric, Value};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;
use wirepath_relay::{BackendStatus, ProxyStatus, ProxyView};

const PROXY: &[Metric<ProxyStatus>] = &[
    Metric::new(
        "connections",
        "Connections of clients that are open, those that wait for a backend among them.",
        |status| Value::Gauge(status.connections.open),
    ),
    Metric::new("accepted", "Connections of clients that were taken.", |status| {
        Value::Counter(status.connections.total)
    }),
    Metric::new("ended", "Connections of clients that ended, by how they did.", |status| {
        let of = &status.connections;
        let ended = [
            ("finished", of.finished),
            ("aborted", of.aborted),
            ("timed_out", of.timed_out),
            ("refused", of.refused),
            ("malformed", of.malformed),
            ("cut", of.cut),
            ("failed", of.failed),
        ];
        Value::Counters("how", ended.into())
    }),
    Metric::new("draining", "1 when no more connections are taken because the proxy ends.", |status| {
        Value::Gauge(u64::from(status.draining))
    }),
];

const BACKEND: &[Metric<BackendStatus>] = &[
    Metric::new("up", "1 for a backend that is thought to be there.", |backend| {
        Value::Gauge(u64::from(backend.up))
    }),
    Metric::new(
        "connections",
        "Connections that a backend has, those that are being made among them.",
        |backend| Value::Gauge(backend.open),
    ),
    Metric::new("connected", "Connections of clients that a backend ever had.", |backend| {
        Value::Counter(backend.total)
    }),
    Metric::new("to_backend_bytes", "Bytes that a backend took.", |backend| {
        Value::Counter(backend.bytes_to_backend)
    }),
    Metric::new("to_client_bytes", "Bytes that clients took from a backend.", |backend| {
        Value::Counter(backend.bytes_to_client)
    }),
    Metric::new("failures", "Connections of clients to a backend that could not be made.", |backend| {
        Value::Counter(backend.failures)
    }),
    Metric::new("checks_passed", "Checks of a backend that succeeded.", |backend| {
        Value::Counter(backend.checks_passed)
    }),
    Metric::new("checks_failed", "Checks of a backend that failed.", |backend| {
        Value::Counter(backend.checks_failed)
    }),
];

/// Adds what is counted of a proxy to what is shown.
pub(super) fn register(view: &ProxyView, metrics: &mut Metrics, status: &mut Status) {
    let seen = view.clone();
    metrics.register("proxy", PROXY, move || seen.status());
    let seen = view.clone();
    metrics.register_rows(
        "backend",
        BACKEND,
        |backend| vec![("backend", backend.name.clone())],
        move || seen.status().backends,
    );
    let seen = view.clone();
    status.add("relay", move || json!(seen.status()));
}
