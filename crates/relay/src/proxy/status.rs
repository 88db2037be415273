//! Counters of a proxy, its metrics and its status.

use serde_json::{Value as Json, json};
use wirepath_counters::{Counter, Family, Gauge, counters, label};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;

use super::ProxyView;

label! {
    /// Outcome of a client's connection.
    pub enum Outcome: "how" {
        /// Ended gracefully in both directions.
        Finished = "finished",
        /// Reset by client or backend, and reset on the other side.
        Aborted = "aborted",
        /// Reset after the idle timeout, or because the backend did not read the first bytes in time: the
        /// PROXY protocol header, and the bytes that the client sent together with its own header.
        TimedOut = "timed_out",
        /// Reset because no backend accepted.
        Refused = "refused",
        /// Reset because of an invalid PROXY protocol header.
        Malformed = "malformed",
        /// Reset because the proxy ended.
        Cut = "cut",
        /// Reset for want of descriptors or memory.
        Failed = "failed",
    }
}

counters! {
    /// Counters of a proxy.
    pub(super) struct ProxyCounters;
    /// Counters of a proxy at one time. Each accepted connection is open or has one outcome.
    pub struct ProxyCounts;

    // In the order in which they are read: so a snapshot never has more outcomes than connections accepted.
    /// Client connections ended, by outcome.
    ended: Family<Outcome>,
    /// Client connections accepted.
    accepted: Counter,
    /// Client connections that are open or wait for a backend.
    connections: Gauge,
    /// 1 while the proxy drains.
    draining: Gauge,
}

impl ProxyCounters {
    /// Reads all counters. Open connections are the accepted ones that have no outcome yet.
    pub(super) fn read(&self) -> ProxyCounts {
        let mut counts = self.snapshot();
        counts.connections = counts.accepted.saturating_sub(counts.ended.total());
        counts
    }
}

counters! {
    /// Counters of a backend.
    pub(super) struct BackendCounters;
    /// Counters of a backend at one time.
    pub struct BackendCounts;

    /// 1 for a backend that is up.
    up: Gauge,
    /// Connections to a backend that are open or being made.
    connections: Gauge,
    /// Client connections made to a backend.
    connected: Counter,
    /// Bytes sent to a backend.
    to_backend_bytes: Counter,
    /// Bytes sent to clients of a backend.
    to_client_bytes: Counter,
    /// Client connections to a backend that failed.
    failures: Counter,
    /// Health checks of a backend that succeeded.
    checks_passed: Counter,
    /// Health checks of a backend that failed.
    checks_failed: Counter,
}

/// Status of a proxy.
#[derive(Clone, Debug)]
pub struct ProxyStatus {
    /// Addresses of the proxy's listeners.
    pub listening: Vec<String>,
    /// Seconds since the proxy started.
    pub seconds: u64,
    /// Counters of client connections.
    pub counts: ProxyCounts,
    /// Backends, in the order of the options.
    pub backends: Vec<BackendStatus>,
}

/// Status of a backend.
#[derive(Clone, Debug)]
pub struct BackendStatus {
    /// Endpoint, as in the options.
    pub name: String,
    /// Seconds since the backend came up or went down.
    pub since_seconds: u64,
    /// Counters of the backend.
    pub counts: BackendCounts,
}

impl ProxyStatus {
    /// Status at the end of the process, when the open connections are reset.
    #[must_use]
    pub fn at_end(mut self) -> ProxyStatus {
        self.counts.ended.add(Outcome::Cut, std::mem::take(&mut self.counts.connections));
        self.backends.iter_mut().for_each(|backend| backend.counts.connections = 0);
        self
    }

    /// Bytes from clients to backends, and from backends to clients.
    pub fn bytes(&self) -> (u64, u64) {
        let sum = |bytes: fn(&BackendCounts) -> u64| self.backends.iter().map(|one| bytes(&one.counts)).sum();
        (sum(|counts| counts.to_backend_bytes), sum(|counts| counts.to_client_bytes))
    }

    /// Report as JSON.
    pub fn json(&self) -> Json {
        let ProxyCounts { connections: open, accepted, ended, draining } = &self.counts;
        let mut connections = json!({"open": open, "total": accepted});
        ended.named().for_each(|(outcome, count)| connections[outcome] = json!(count));
        let (to_backends, to_clients) = self.bytes();
        json!({
            "schema": "wirepath-relay-proxy/1",
            "listening": self.listening,
            "draining": *draining > 0,
            "seconds": self.seconds,
            "connections": connections,
            "bytes_to_backends": to_backends,
            "bytes_to_clients": to_clients,
            "backends": self.backends.iter().map(BackendStatus::json).collect::<Vec<_>>(),
        })
    }
}

impl BackendStatus {
    fn json(&self) -> Json {
        let counts = &self.counts;
        json!({
            "name": self.name,
            "up": counts.up > 0,
            "since_seconds": self.since_seconds,
            "open": counts.connections,
            "total": counts.connected,
            "bytes_to_backend": counts.to_backend_bytes,
            "bytes_to_client": counts.to_client_bytes,
            "failures": counts.failures,
            "checks_passed": counts.checks_passed,
            "checks_failed": counts.checks_failed,
        })
    }
}

pub(super) fn register(view: &ProxyView, metrics: &mut Metrics, status: &mut Status) {
    let proxy = view.clone();
    metrics.register("proxy", ProxyCounts::METRICS, move || proxy.status().counts);
    let proxy = view.clone();
    let row = |backend: BackendStatus| (vec![("backend", backend.name)], backend.counts);
    let rows = move || proxy.status().backends.into_iter().map(row).collect();
    metrics.register_rows("backend", BackendCounts::METRICS, rows);
    let proxy = view.clone();
    status.add("relay", move || proxy.status().json());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_is_open_or_has_one_outcome() {
        let counters = ProxyCounters::default();
        (0..10).for_each(|_| counters.accepted.increment());
        let outcomes =
            [Outcome::Finished, Outcome::Aborted, Outcome::Aborted, Outcome::Refused, Outcome::Cut];
        outcomes.into_iter().for_each(|outcome| counters.ended.increment(outcome));
        let counts = counters.read();
        assert_eq!((counts.accepted, counts.connections, counts.ended.total()), (10, 5, 5));
        let ended: Vec<_> = counts.ended.named().filter(|(_, count)| *count > 0).collect();
        assert_eq!(ended, [("finished", 1), ("aborted", 2), ("refused", 1), ("cut", 1)]);
    }
}
