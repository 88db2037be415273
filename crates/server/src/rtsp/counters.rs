//! What the door counts. Declared once; whatever shows counters goes through [`Counters::each`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

/// How a number behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only goes up.
    Total,
    /// It goes up and down.
    Level,
}

/// One counter as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its name, without prefix or suffix.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Its value now.
    pub value: u64,
}

macro_rules! counters {
    ($($kind:ident $name:ident: $help:literal,)*) => {
        /// All counters of a door.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $help] pub $name: Counter,)*
        }

        impl Counters {
            /// Every counter, in a fixed order.
            pub fn each(&self) -> Vec<Sample> {
                vec![$(Sample {
                    name: stringify!($name),
                    help: $help,
                    kind: Kind::$kind,
                    value: self.$name.value(),
                },)*]
            }
        }
    };
}

counters! {
    Level connections: "RTSP connections that are open.",
    Total connections_accepted: "RTSP connections accepted.",
    Total connections_refused: "RTSP connections refused because there were too many.",
    Total connections_refused_address: "RTSP connections refused because their address had too many.",
    Total connections_idle: "RTSP connections closed because they had no session and sent nothing.",
    Total connections_slow: "RTSP connections closed because a request or a response took too long.",
    Total requests: "RTSP requests read, wrong ones included.",
    Total requests_refused: "RTSP requests answered with a status of 400 or more.",
    Total requests_malformed: "RTSP requests that could not be read.",
    Level sessions: "RTSP sessions that are set up.",
    Total sessions_set_up: "RTSP sessions set up.",
    Total sessions_refused: "RTSP sessions refused because there were too many.",
    Total sessions_torn_down: "RTSP sessions ended by TEARDOWN.",
    Total sessions_timed_out: "RTSP sessions ended because nothing was heard of their client.",
    Total sessions_disconnected: "RTSP sessions ended because their connection did.",
    Total sessions_unreachable: "RTSP sessions ended because nobody listened at the client's port.",
    Total sessions_failed: "RTSP sessions ended because playing failed.",
    Total sessions_drained: "RTSP sessions ended because the server shut down.",
    Total plays: "PLAY requests that started something, at once or after waiting.",
    Total pauses: "PAUSE requests that stopped something.",
    Total sender_reports: "RTCP sender reports sent.",
    Total farewells: "RTCP BYE packets sent.",
    Total rtcp_received: "RTCP datagrams received from clients.",
    Total rtcp_malformed: "Datagrams received from clients that are no RTCP.",
    Total receptions: "RTCP reception reports received about our sources.",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_shown_once() {
        let counters = Counters::default();
        counters.plays.increase();
        counters.connections.add(3);
        counters.connections.decrease();
        let samples = counters.each();
        let value = |name| samples.iter().find(|sample| sample.name == name).map(|sample| sample.value);
        assert_eq!((value("plays"), value("connections"), value("requests")), (Some(1), Some(2), Some(0)));
        let mut names: Vec<_> = samples.iter().map(|sample| sample.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), samples.len());
    }
}
