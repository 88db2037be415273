//! Counters of authentication.

use wirepath_counters::{Counter, Family, counters, label};

label! {
    /// Reason for which a request with credentials was denied.
    pub(super) enum Failure: "reason" {
        /// The user or the password is wrong.
        Wrong = "wrong_password",
        /// The credentials are no answer to a challenge.
        Malformed = "malformed",
        /// The user is not among those that the folder is for.
        Forbidden = "forbidden",
        /// The address had too many wrong tries.
        Slowed = "slowed",
    }
}

counters! {
    /// Counters of authentication.
    pub(super) struct Counters;
    /// Snapshot of the counters of authentication.
    pub(super) struct Counts;

    /// Requests whose credentials were refused, by reason.
    failures: Family<Failure>,
    /// Requests without credentials that were answered with a challenge.
    challenges: Counter,
    /// Requests with the right password whose nonce had expired or was used before.
    stale_nonces: Counter,
}
