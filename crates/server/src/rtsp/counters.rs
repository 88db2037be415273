//! Counters of an RTSP listener.

use crate::admission::Overload;
use wirepath_counters::{Counter, Family, Gauge, counters, label};
use wirepath_net::Exceeded;

label! {
    /// Reason for which a connection or session was refused.
    pub(super) enum RefusalReason: "reason" {
        Total = "total_limit",
        Address = "address_limit",
        Connection = "connection_limit",
        Descriptors = "descriptor_limit",
        /// The engine threads have no time for another session.
        Processor = "processor",
        /// Too many sessions came within a second.
        Growth = "growth",
        /// The link has no room for another session.
        Rate = "rate",
        /// Sessions are late.
        Late = "late",
    }
}

label! {
    /// Timeout that closed a connection.
    pub(super) enum TimeoutReason: "reason" {
        /// The connection had no session and sent nothing.
        Idle = "idle",
        /// A request was not complete in time.
        Request = "request",
        /// The client did not accept a response in time.
        Response = "response",
    }
}

label! {
    /// Reason for which a session ended.
    pub(super) enum EndReason: "reason" {
        Teardown = "teardown",
        /// The client was silent for too long.
        Timeout = "timeout",
        Disconnected = "disconnected",
        Unreachable = "unreachable",
        Failed = "failed",
        Shutdown = "shutdown",
        /// An administrator ended it.
        Administrator = "administrator",
    }
}

counters! {
    /// Counters of an RTSP listener.
    pub(super) struct Counters;
    /// Snapshot of the counters of an RTSP listener.
    pub(super) struct Counts;

    /// RTSP connections that are open.
    connections: Gauge,
    /// RTSP connections accepted.
    connections_accepted: Counter,
    /// RTSP connections refused, by reason.
    connections_refused: Family<RefusalReason>,
    /// RTSP connections through an HTTP tunnel that are open.
    tunnels: Gauge,
    /// RTSP connections closed by a timeout.
    connections_timed_out: Family<TimeoutReason>,
    /// RTSP requests read, malformed ones included.
    requests: Counter,
    /// RTSP requests answered with a status of 400 or more.
    requests_refused: Counter,
    /// RTSP requests that could not be read.
    requests_malformed: Counter,
    /// RTSP sessions that are set up.
    sessions: Gauge,
    /// RTSP sessions over TCP (interleaved) that are set up.
    sessions_interleaved: Gauge,
    /// Tracks of RTSP sessions that are set up.
    tracks: Gauge,
    /// RTSP sessions set up since the start.
    sessions_started: Counter,
    /// RTSP sessions refused, by reason: a limit, the processor, too many at once, the link's rate, or lateness.
    sessions_refused: Family<RefusalReason>,
    /// RTSP sessions ended, by reason.
    sessions_ended: Family<EndReason>,
    /// PLAY requests that started playing, at once or after waiting.
    plays: Counter,
    /// PAUSE requests that stopped playing.
    pauses: Counter,
    /// RTCP sender reports sent.
    sender_reports: Counter,
    /// RTCP BYE packets sent.
    rtcp_byes: Counter,
    /// Interleaved frames of clients that were dropped because no session has their channel for RTCP.
    frames_dropped: Counter,
    /// RTCP packets received from clients.
    rtcp_received: Counter,
    /// Datagrams and frames received from clients that are not RTCP.
    rtcp_malformed: Counter,
    /// RTCP packets received in SRTP sessions that are not authentic: forged, in the clear, repeated, or of a
    /// client that sent no key.
    rtcp_unauthenticated: Counter,
    /// Datagrams received on RTCP ports from addresses and ports that have no session.
    rtcp_strays: Counter,
    /// Calls that read RTCP ports, each for many datagrams.
    rtcp_reads: Counter,
    /// RTCP reception reports received about our sources.
    reception_reports: Counter,
}

impl From<Overload> for RefusalReason {
    fn from(overload: Overload) -> RefusalReason {
        match overload {
            Overload::Processor { .. } => RefusalReason::Processor,
            Overload::Growth { .. } => RefusalReason::Growth,
            Overload::Rate { .. } => RefusalReason::Rate,
            Overload::Late { .. } => RefusalReason::Late,
        }
    }
}

impl From<Exceeded> for RefusalReason {
    fn from(exceeded: Exceeded) -> RefusalReason {
        match exceeded {
            Exceeded::Total => RefusalReason::Total,
            Exceeded::Address => RefusalReason::Address,
            Exceeded::Descriptors => RefusalReason::Descriptors,
        }
    }
}
