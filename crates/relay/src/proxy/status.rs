//! What a proxy has done, for whoever looks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// What a proxy has done so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProxyStatus {
    /// Name and version of this form, for readers of the JSON.
    pub schema: &'static str,
    /// Where it listens.
    pub listening: Vec<String>,
    /// Whether it takes no more connections because it ends.
    pub draining: bool,
    /// Seconds since it was started.
    pub seconds: u64,
    /// Connections of clients.
    pub connections: ConnectionCounts,
    /// Bytes that backends took from clients.
    pub bytes_to_backends: u64,
    /// Bytes that clients took from backends.
    pub bytes_to_clients: u64,
    /// In the order in which they were given.
    pub backends: Vec<BackendStatus>,
}

impl ProxyStatus {
    /// The same when the process ends now: what is open is cut with it.
    #[must_use]
    pub fn at_its_end(mut self) -> ProxyStatus {
        self.connections.cut += std::mem::take(&mut self.connections.open);
        self.backends.iter_mut().for_each(|backend| backend.open = 0);
        self
    }
}

/// Connections of clients: each is open or has ended in one of the ways below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionCounts {
    /// That are open now, those that wait for a backend among them.
    pub open: u64,
    /// That were ever taken.
    pub total: u64,
    /// That ended in order, both ways.
    pub finished: u64,
    /// That were reset by the client or the backend, or broke, and were reset on the other side.
    pub aborted: u64,
    /// That were reset because nothing was moved for the idle timeout, or because the backend did not take in time what comes before all
    /// else: the PROXY protocol header, and what the client sent with its own.
    pub timed_out: u64,
    /// That were reset because no backend could be connected to.
    pub refused: u64,
    /// That were reset because of their PROXY protocol header.
    pub malformed: u64,
    /// That were reset because the proxy ended.
    pub cut: u64,
    /// That were reset for want of descriptors or memory.
    pub failed: u64,
}

/// What is known of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackendStatus {
    /// Its address as it was given.
    pub name: String,
    /// Whether it is thought to be there.
    pub up: bool,
    /// For how many seconds.
    pub since_seconds: u64,
    /// Connections it has now, those that are being made among them.
    pub open: u64,
    /// Connections of clients it ever had.
    pub total: u64,
    /// Bytes it took.
    pub bytes_to_backend: u64,
    /// Bytes that clients took from it.
    pub bytes_to_client: u64,
    /// Connections of clients that could not be made.
    pub failures: u64,
    /// Checks that succeeded.
    pub checks_passed: u64,
    /// Checks that failed.
    pub checks_failed: u64,
}

/// The form of the JSON.
pub(super) const SCHEMA: &str = "wirepath-relay-proxy/1";

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Finished,
    Aborted,
    TimedOut,
    Refused,
    Malformed,
    Cut,
    Failed,
}

/// What is counted of connections.
#[derive(Debug, Default)]
pub(super) struct Totals {
    taken: AtomicU64,
    /// By the ending's place.
    ended: [AtomicU64; 7],
}

impl Totals {
    pub(super) fn taken(&self) {
        self.taken.fetch_add(1, Relaxed);
    }

    pub(super) fn ended(&self, ending: Ending) {
        self.ended[ending as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn counts(&self) -> ConnectionCounts {
        // What ends is read first, so that no more have ended than were taken.
        let [finished, aborted, timed_out, refused, malformed, cut, failed] =
            self.ended.each_ref().map(|count| count.load(Relaxed));
        let total = self.taken.load(Relaxed);
        let ended = finished + aborted + timed_out + refused + malformed + cut + failed;
        let open = total.saturating_sub(ended);
        ConnectionCounts { open, total, finished, aborted, timed_out, refused, malformed, cut, failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_is_open_or_has_ended_in_one_way() {
        let totals = Totals::default();
        (0..10).for_each(|_| totals.taken());
        let endings = [
            Ending::Finished,
            Ending::Aborted,
            Ending::TimedOut,
            Ending::Refused,
            Ending::Malformed,
            Ending::Cut,
            Ending::Failed,
        ];
        endings.into_iter().for_each(|ending| totals.ended(ending));
        totals.ended(Ending::Aborted);
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
