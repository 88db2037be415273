//! Counters of an HTTP listener.

use http::StatusCode;
use wirepath_counters::{Counter, Family, Gauge, counters, label};

label! {
    /// Class of a response's status.
    pub enum Class: "class" {
        /// 200 to 299.
        Success = "2xx",
        /// 300 to 399.
        Redirection = "3xx",
        /// 400 to 499.
        ClientError = "4xx",
        /// 500 and above.
        ServerError = "5xx",
    }
}

counters! {
    /// Counters of an HTTP listener.
    pub(super) struct Counters;
    /// Snapshot of the counters of an HTTP listener.
    pub(super) struct Counts;

    /// HTTP connections that are open.
    connections: Gauge,
    /// HTTP connections accepted.
    connections_accepted: Counter,
    /// HTTP connections refused because a limit was reached.
    connections_refused: Counter,
    /// HTTP connections closed because the client was idle or slow for too long.
    connections_timed_out: Counter,
    /// HTTP requests read.
    requests: Counter,
    /// HTTP request heads that could not be read and ended their connection.
    requests_malformed: Counter,
    /// HTTP responses begun, by class of status.
    responses: Family<Class>,
    /// HTTP responses being sent.
    responses_sending: Gauge,
    /// Event streams of the status that are open.
    event_streams: Gauge,
    /// Bytes of HTTP response bodies sent.
    body_bytes: Counter,
    /// HTTP response bodies that ended early because the connection or the file failed.
    bodies_cut: Counter,
}

impl From<StatusCode> for Class {
    fn from(status: StatusCode) -> Class {
        match status.as_u16() / 100 {
            0..=2 => Class::Success,
            3 => Class::Redirection,
            4 => Class::ClientError,
            _ => Class::ServerError,
        }
    }
}
