//! What is counted of a proxy, declared for `/metrics` and `/api/status`.

use serde_json::json;
use wirepath_relay::{BackendStatus, ProxyStatus, ProxyView};
use wirepath_server::metrics::{Metric, Metrics, Value};
use wirepath_server::status::Status;

const PROXY: &[Metric<ProxyStatus>] = &[
    Metric {
        name: "connections",
        help: "Connections of clients that are open, those that wait for a backend among them",
        unit: None,
        read: |status| Value::Gauge(status.connections.open as f64),
    },
    Metric {
        name: "accepted",
        help: "Connections of clients that were taken",
        unit: None,
        read: |status| Value::Counter(status.connections.total),
    },
    Metric {
        name: "ended",
        help: "Connections of clients that ended, by how they did",
        unit: None,
        read: |status| {
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
        },
    },
    Metric {
        name: "draining",
        help: "1 when no more connections are taken because the proxy ends",
        unit: None,
        read: |status| Value::Gauge(if status.draining { 1.0 } else { 0.0 }),
    },
];

const BACKEND: &[Metric<BackendStatus>] = &[
    Metric {
        name: "up",
        help: "1 for a backend that is thought to be there",
        unit: None,
        read: |backend| Value::Gauge(if backend.up { 1.0 } else { 0.0 }),
    },
    Metric {
        name: "connections",
        help: "Connections that a backend has, those that are being made among them",
        unit: None,
        read: |backend| Value::Gauge(backend.open as f64),
    },
    Metric {
        name: "connected",
        help: "Connections of clients that a backend ever had",
        unit: None,
        read: |backend| Value::Counter(backend.total),
    },
    Metric {
        name: "to_backend",
        help: "Bytes that a backend took",
        unit: Some("bytes"),
        read: |backend| Value::Counter(backend.bytes_to_backend),
    },
    Metric {
        name: "to_client",
        help: "Bytes that clients took from a backend",
        unit: Some("bytes"),
        read: |backend| Value::Counter(backend.bytes_to_client),
    },
    Metric {
        name: "failures",
        help: "Connections of clients to a backend that could not be made",
        unit: None,
        read: |backend| Value::Counter(backend.failures),
    },
    Metric {
        name: "checks_passed",
        help: "Checks of a backend that succeeded",
        unit: None,
        read: |backend| Value::Counter(backend.checks_passed),
    },
    Metric {
        name: "checks_failed",
        help: "Checks of a backend that failed",
        unit: None,
        read: |backend| Value::Counter(backend.checks_failed),
    },
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
