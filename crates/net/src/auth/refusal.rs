//! Refusals of requests, for RTSP and HTTP.

use http::{StatusCode, header};
use wirepath_http::Response;

/// Seconds after which a client may try again.
pub const RETRY_AFTER_S: &str = "10";

/// Refusal of a request by access control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthRefusal {
    /// Kind of the response.
    pub kind: RefusalKind,
    /// Reason, in words for the client.
    pub why: String,
}

/// Kind of the response to a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// Authentication required: values of `WWW-Authenticate`, one for each header line, in this order.
    Challenge(Vec<String>),
    /// A retry is useless.
    Forbidden,
    /// The address had too many failed attempts.
    Slowed,
    /// The decision could not be made.
    Unavailable,
}

impl AuthRefusal {
    /// Response over HTTP.
    pub fn http_response(&self) -> Response {
        let error = |status| Response::error(status, &self.why);
        let later = |status| error(status).header(header::RETRY_AFTER, RETRY_AFTER_S);
        match &self.kind {
            RefusalKind::Challenge(challenges) => {
                let response = error(StatusCode::UNAUTHORIZED).header(header::CACHE_CONTROL, "no-store");
                let add = |response: Response, challenge: &String| {
                    response.header(header::WWW_AUTHENTICATE, challenge)
                };
                challenges.iter().fold(response, add)
            }
            RefusalKind::Forbidden => error(StatusCode::FORBIDDEN).header(header::CACHE_CONTROL, "no-store"),
            RefusalKind::Slowed => later(StatusCode::TOO_MANY_REQUESTS),
            RefusalKind::Unavailable => later(StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}
