//! Counters of authentication.

use wirepath_counters::{Counter, Family, counters, label};

use super::latency::Latency;

label! {
    /// Reason for which a request was denied.
    pub(super) enum Failure: "reason" {
        /// The user or the password is wrong.
        Wrong = "wrong_password",
        /// The credentials are no answer to a challenge.
        Malformed = "malformed",
        /// The user is not among those that the folder is for.
        Forbidden = "forbidden",
        /// The address had too many wrong attempts.
        Slowed = "slowed",
        /// The URL is not signed, and only signed ones are served.
        Unsigned = "unsigned",
        /// The parameters of a signed URL cannot be read.
        UrlMalformed = "url_malformed",
        /// The signature of a URL is wrong.
        UrlWrong = "url_wrong",
        /// A signed URL has expired.
        UrlExpired = "url_expired",
        /// A signed URL is for another client address.
        UrlAddress = "url_address",
        /// The authentication callback refused.
        Callback = "callback",
        /// The authentication callback failed.
        CallbackFailed = "callback_failed",
    }
}

label! {
    /// Result of a request to the authentication callback.
    pub(super) enum CallbackResult: "result" {
        /// 2xx.
        Allowed = "allowed",
        /// 401 or 403.
        Refused = "refused",
        /// Another status.
        Status = "status",
        /// No answer in time.
        Timeout = "timeout",
        /// No connection, or no answer of HTTP.
        Error = "error",
        /// Not sent: too many wait.
        Limit = "limit",
    }
}

counters! {
    /// Counters of authentication.
    pub(super) struct Counters;
    /// Snapshot of the counters of authentication.
    pub(super) struct Counts;

    /// Requests that were refused, by reason.
    failures: Family<Failure>,
    /// Requests without credentials that were answered with a challenge.
    challenges: Counter,
    /// Requests with the right password whose nonce had expired or was used before.
    stale_nonces: Counter,
    /// Requests that a signed URL admitted.
    url_admissions: Counter,
    /// Requests to the authentication callback, by result.
    callbacks: Family<CallbackResult>,
    /// Requests that a kept or awaited answer of the authentication callback decided.
    callbacks_saved: Counter,
    /// Time from a request to the authentication callback to its answer.
    callback_seconds: Latency,
}
