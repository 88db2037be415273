//! Metrics and status of a proxy.

use serde_json::json;
use wirepath_counters::Metric;
use wirepath_counters::Value::{Counter, Counters, Gauge};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;

use super::{BackendStatus, ConnectionCounts, ProxyStatus, ProxyView};
use crate::metrics::metrics;

const PROXY: &[Metric<ProxyStatus>] = metrics! {
    "connections", "Client connections that are open or wait for a backend.", |proxy| Gauge(proxy.connections.open);
    "accepted", "Client connections accepted.", |proxy| Counter(proxy.connections.total);
    "ended", "Client connections ended, by outcome.", |proxy| Counters("how", outcomes(&proxy.connections));
    "draining", "1 while the proxy drains.", |proxy| Gauge(u64::from(proxy.draining));
};

const BACKEND: &[Metric<BackendStatus>] = metrics! {
    "up", "1 for a backend that is up.", |backend| Gauge(u64::from(backend.up));
    "connections", "Connections to a backend that are open or being made.", |backend| Gauge(backend.open);
    "connected", "Client connections made to a backend.", |backend| Counter(backend.total);
    "to_backend_bytes", "Bytes sent to a backend.", |backend| Counter(backend.bytes_to_backend);
    "to_client_bytes", "Bytes sent to clients of a backend.", |backend| Counter(backend.bytes_to_client);
    "failures", "Client connections to a backend that failed.", |backend| Counter(backend.failures);
    "checks_passed", "Health checks of a backend that succeeded.", |backend| Counter(backend.checks_passed);
    "checks_failed", "Health checks of a backend that failed.", |backend| Counter(backend.checks_failed);
};

/// Adds a proxy to metrics and status.
pub(super) fn register(view: &ProxyView, metrics: &mut Metrics, status: &mut Status) {
    let proxy = view.clone();
    metrics.register("proxy", PROXY, move || proxy.status());
    let proxy = view.clone();
    let labels = |backend: &BackendStatus| vec![("backend", backend.name.clone())];
    metrics.register_rows("backend", BACKEND, labels, move || proxy.status().backends);
    let proxy = view.clone();
    status.add("relay", move || json!(proxy.status()));
}

fn outcomes(of: &ConnectionCounts) -> Vec<(&'static str, u64)> {
    vec![
        ("finished", of.finished),
        ("aborted", of.aborted),
        ("timed_out", of.timed_out),
        ("refused", of.refused),
        ("malformed", of.malformed),
        ("cut", of.cut),
        ("failed", of.failed),
    ]
}
