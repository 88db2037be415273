//! Counters of TLS.

use wirepath_counters::{Counter, Family, Gauge, counters, label};

label! {
    /// Reason for which a handshake failed.
    pub(super) enum Failure: "reason" {
        /// The client was too slow.
        Timeout = "timeout",
        /// The client closed or reset the connection.
        Closed = "closed",
        /// The client sent an alert: it does not trust the certificate, for example.
        Alert = "alert",
        /// The client has no version, cipher suite or key exchange in common with the server.
        Incompatible = "incompatible",
        /// Bytes of the client that are not TLS, or break its rules.
        Malformed = "malformed",
        /// A system call failed.
        System = "system",
    }
}

counters! {
    /// Counters of TLS.
    pub(super) struct Counters;
    /// Snapshot of the counters of TLS.
    pub(super) struct Counts;

    /// TLS connections that are open, handshakes not included.
    connections: Gauge,
    /// TLS handshakes under way.
    handshakes_pending: Gauge,
    /// TLS handshakes completed.
    handshakes: Counter,
    /// TLS handshakes that failed, by reason.
    handshakes_failed: Family<Failure>,
    /// TLS connections that were cut after the handshake: reset, or bytes that cannot be decrypted.
    connections_cut: Counter,
    /// Times that the TLS certificate and key were read again.
    certificate_reloads: Counter,
    /// Times that the TLS certificate and key could not be used when they were read again.
    certificate_reloads_failed: Counter,
    /// Time at which the TLS certificate expires, in seconds since 1970; 0 without TLS.
    certificate_expires_seconds: Gauge,
}
