//! `/metrics` and `/api/status`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{StatusCode, header};
use wirepath_http::{AssetPath, BodyPart, Request, Response};

use super::exchange::{Answer, Site};
use crate::metrics::{self, Metrics};
use crate::status::Status;

/// Metrics and status, as a site of their own or as a part of one.
#[derive(Clone)]
pub struct Endpoint {
    /// Content of `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Content of `/api/status`.
    pub status: Arc<Status>,
}

impl Endpoint {
    /// The answer for a path of this endpoint; none for any other.
    pub fn find(&self, path: &AssetPath) -> Option<Answer> {
        match path.as_bytes() {
            b"metrics" => Some(generated(metrics::CONTENT_TYPE, self.metrics.text())),
            b"api/status" => {
                let json = self.status.json(&self.metrics, Instant::now());
                Some(generated("application/json", format!("{json:#}\n")))
            }
            _ => None,
        }
    }
}

impl Site for Endpoint {
    async fn answer(&self, path: AssetPath, _: Request, _: SocketAddr) -> Answer {
        let missing = || Response::error(StatusCode::NOT_FOUND, "only /metrics and /api/status exist").into();
        self.find(&path).unwrap_or_else(missing)
    }
}

fn generated(content_type: &str, text: String) -> Answer {
    Response::with_body(StatusCode::OK, content_type, vec![BodyPart::Bytes(text.into_bytes())])
        .header(header::CACHE_CONTROL, "no-store")
        .into()
}
