//! What the door counts, declared once; [`COUNTERS`] is for whoever shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::metrics::{Metric, Value};

/// One number that anybody may read at any time.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Its value.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(super) fn increase(&self) {
        self.add(1);
    }

    pub(super) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    pub(super) fn decrease(&self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

macro_rules! counters {
    ($($kind:ident $name:ident: $help:literal,)*) => {
        /// All counters of a door.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $help] pub $name: Counter,)*
        }

        /// The table for [`Metrics::register`](crate::metrics::Metrics::register), under the name `rtsp`.
        pub(crate) const COUNTERS: &[Metric<Arc<Counters>>] = &[$(Metric {
            name: stringify!($name),
            help: $help,
            unit: None,
            read: |counters| $kind(&counters.$name),
        },)*];
    };
}

counters! {
    level connections: "RTSP connections that are open",
    total connections_accepted: "RTSP connections accepted",
    total connections_refused: "RTSP connections refused because there were too many",
    total connections_refused_address: "RTSP connections refused because their address had too many",
    total connections_idle: "RTSP connections closed because they had no session and sent nothing",
    total connections_slow: "RTSP connections closed because a request or a response took too long",
    total requests: "RTSP requests read, wrong ones included",
    total requests_refused: "RTSP requests answered with a status of 400 or more",
    total requests_malformed: "RTSP requests that could not be read",
    level sessions: "RTSP sessions that are set up",
    total sessions_set_up: "RTSP sessions set up",
    total sessions_refused: "RTSP sessions refused because there were too many",
    total sessions_refused_address: "RTSP sessions refused because their address had too many",
    total sessions_refused_connection: "RTSP sessions refused because their connection had too many",
    total sessions_torn_down: "RTSP sessions ended by TEARDOWN",
    total sessions_timed_out: "RTSP sessions ended because nothing was heard of their client",
    total sessions_disconnected: "RTSP sessions ended because their connection did",
    total sessions_unreachable: "RTSP sessions ended because nobody listened at the client's port",
    total sessions_failed: "RTSP sessions ended because playing failed",
    total sessions_drained: "RTSP sessions ended because the server shut down",
    total plays: "PLAY requests that started something, at once or after waiting",
    total pauses: "PAUSE requests that stopped something",
    total sender_reports: "RTCP sender reports sent",
    total farewells: "RTCP BYE packets sent",
    total rtcp_received: "RTCP datagrams received from clients",
    total rtcp_malformed: "Datagrams received from clients that are no RTCP",
    total receptions: "RTCP reception reports received about our sources",
}

/// It only goes up.
fn total(counter: &Counter) -> Value {
    Value::Counter(counter.value())
}

/// It goes up and down.
fn level(counter: &Counter) -> Value {
    Value::Gauge(counter.value() as f64)
}
