//! What the door counts.

use crate::metrics::{Metric, Value};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wirepath_media::http::Status;

/// The door's counters. One thread writes them, so relaxed order is enough.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) closed: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) body_bytes: AtomicU64,
    pub(super) bodies_cut: AtomicU64,
    /// By the status's first digit, 2 to 5.
    pub(super) responses: [AtomicU64; 4],
}

/// The door's counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections taken.
    pub accepted: u64,
    /// Connections refused because of a limit.
    pub refused: u64,
    /// Connections that are open.
    pub open: u64,
    /// Connections ended because the client was silent or slow.
    pub timed_out: u64,
    /// Request heads read.
    pub requests: u64,
    /// Request heads that could not be read.
    pub malformed: u64,
    /// Bytes of bodies sent.
    pub body_bytes: u64,
    /// Bodies that ended early.
    pub bodies_cut: u64,
    /// Answers by the status's first digit, 2 to 5.
    pub responses: [u64; 4],
}

/// The table for [`Metrics::register`](crate::metrics::Metrics::register), under the name `http`.
pub const COUNTERS: &[Metric<Counts>] = &[
    Metric {
        name: "connections_accepted",
        help: "HTTP connections taken",
        unit: None,
        read: |counts| Value::Counter(counts.accepted),
    },
    Metric {
        name: "connections_refused",
        help: "HTTP connections refused because a limit was reached",
        unit: None,
        read: |counts| Value::Counter(counts.refused),
    },
    Metric {
        name: "connections_timed_out",
        help: "HTTP connections ended because the client was silent or slow for too long",
        unit: None,
        read: |counts| Value::Counter(counts.timed_out),
    },
    Metric {
        name: "connections",
        help: "HTTP connections that are open",
        unit: None,
        read: |counts| Value::Gauge(counts.open as f64),
    },
    Metric {
        name: "requests",
        help: "HTTP requests read",
        unit: None,
        read: |counts| Value::Counter(counts.requests),
    },
    Metric {
        name: "requests_malformed",
        help: "HTTP request heads that could not be read and ended their connection",
        unit: None,
        read: |counts| Value::Counter(counts.malformed),
    },
    Metric {
        name: "responses",
        help: "HTTP responses begun, by class of status",
        unit: None,
        read: |counts| {
            let [success, redirection, client_error, server_error] = counts.responses;
            let classes =
                vec![("2xx", success), ("3xx", redirection), ("4xx", client_error), ("5xx", server_error)];
            Value::Counters("class", classes)
        },
    },
    Metric {
        name: "body",
        help: "Bytes of HTTP response bodies sent",
        unit: Some("bytes"),
        read: |counts| Value::Counter(counts.body_bytes),
    },
    Metric {
        name: "bodies_cut",
        help: "HTTP response bodies that ended early because the connection or the file failed",
        unit: None,
        read: |counts| Value::Counter(counts.bodies_cut),
    },
];

impl Counters {
    pub(super) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }

    pub(super) fn response(&self, status: Status) {
        let class = usize::from(status.code() / 100).saturating_sub(2).min(3);
        Self::add(&self.responses[class], 1);
    }

    pub(super) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        // Closed before accepted: what closes between the two reads must not make the difference negative.
        let closed = read(&self.closed);
        let accepted = read(&self.accepted);
        Counts {
            accepted,
            refused: read(&self.refused),
            open: accepted.saturating_sub(closed),
            timed_out: read(&self.timed_out),
            requests: read(&self.requests),
            malformed: read(&self.malformed),
            body_bytes: read(&self.body_bytes),
            bodies_cut: read(&self.bodies_cut),
            responses: std::array::from_fn(|class| read(&self.responses[class])),
        }
    }
}
