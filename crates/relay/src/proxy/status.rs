//! Status of a proxy.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// Status of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProxyStatus {
    /// Name and version of the JSON schema.
    pub schema: &'static str,
    /// Addresses of its listeners.
    pub listening: Vec<String>,
    /// Says that it drains.
    pub draining: bool,
    /// Seconds since its start.
    pub seconds: u64,
    /// Client connections.
    pub connections: ConnectionCounts,
    /// Bytes from clients to backends.
    pub bytes_to_backends: u64,
    /// Bytes from backends to clients.
    pub bytes_to_clients: u64,
    /// Backends, in the order of the options.
    pub backends: Vec<BackendStatus>,
}

impl ProxyStatus {
    /// Status at the end of the process, which resets the open connections.
    #[must_use]
    pub fn at_end(mut self) -> ProxyStatus {
        self.connections.cut += std::mem::take(&mut self.connections.open);
        self.backends.iter_mut().for_each(|backend| backend.open = 0);
        self
    }
}

/// Client connections: each is open or has ended in one of these ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionCounts {
    /// Open, including those that wait for a backend.
    pub open: u64,
    /// Accepted in total.
    pub total: u64,
    /// Ended gracefully in both directions.
    pub finished: u64,
    /// Reset by client or backend, and reset on the other side.
    pub aborted: u64,
    /// Reset after the idle timeout, or because the backend did not read the first bytes in time: the PROXY
    /// protocol header and what the client sent with its own.
    pub timed_out: u64,
    /// Reset because no backend accepted.
    pub refused: u64,
    /// Reset because of an invalid PROXY protocol header.
    pub malformed: u64,
    /// Reset because the proxy ended.
    pub cut: u64,
    /// Reset for want of descriptors or memory.
    pub failed: u64,
}

/// Status of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackendStatus {
    /// Endpoint, as in the options.
    pub name: String,
    /// Says that it is up.
    pub up: bool,
    /// Seconds since the last change of `up`.
    pub since_seconds: u64,
    /// Open connections, including those being made.
    pub open: u64,
    /// Client connections in total.
    pub total: u64,
    /// Bytes to the backend.
    pub bytes_to_backend: u64,
    /// Bytes from the backend to clients.
    pub bytes_to_client: u64,
    /// Failed connections for clients.
    pub failures: u64,
    /// Successful health checks.
    pub checks_passed: u64,
    /// Failed health checks.
    pub checks_failed: u64,
}

/// Schema of the JSON.
pub(super) const SCHEMA: &str = "wirepath-relay-proxy/1";

/// Outcome of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Finished,
    Aborted,
    TimedOut,
    Refused,
    Malformed,
    Cut,
    Failed,
}

/// Counters of connections.
#[derive(Debug, Default)]
pub(super) struct Totals {
    accepted: AtomicU64,
    /// Indexed by outcome.
    ended: [AtomicU64; 7],
}

impl Totals {
    pub(super) fn accepted(&self) {
        self.accepted.fetch_add(1, Relaxed);
    }

    pub(super) fn ended(&self, outcome: Outcome) {
        self.ended[outcome as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn counts(&self) -> ConnectionCounts {
        // Ended ones are read first, so that they never exceed the accepted ones.
        let [finished, aborted, timed_out, refused, malformed, cut, failed] =
            self.ended.each_ref().map(|count| count.load(Relaxed));
        let total = self.accepted.load(Relaxed);
        let ended = finished + aborted + timed_out + refused + malformed + cut + failed;
        let open = total.saturating_sub(ended);
        ConnectionCounts { open, total, finished, aborted, timed_out, refused, malformed, cut, failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_is_open_or_has_one_outcome() {
        let totals = Totals::default();
        (0..10).for_each(|_| totals.accepted());
        let outcomes = [
            Outcome::Finished,
            Outcome::Aborted,
            Outcome::TimedOut,
            Outcome::Refused,
            Outcome::Malformed,
            Outcome::Cut,
            Outcome::Failed,
        ];
        outcomes.into_iter().for_each(|outcome| totals.ended(outcome));
        totals.ended(Outcome::Aborted);
        let expected = ConnectionCounts {
            open: 2,
            total: 10,
            finished: 1,
            aborted: 2,
            timed_out: 1,
            refused: 1,
            malformed: 1,
            cut: 1,
            failed: 1,
        };
        assert_eq!(totals.counts(), expected);
    }
}
