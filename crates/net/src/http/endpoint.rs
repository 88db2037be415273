//! `/metrics`, `/api/status` and `/api/events`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{StatusCode, header};
use tokio::sync::Semaphore;
use wirepath_http::{AssetPath, BodyPart, Request, Response};

use super::answer::Answer;
use super::events::Events;
use super::exchange::Site;
use crate::metrics::{self, Metrics};
use crate::status::Status;

/// Metrics and status, as a separate site or as part of a site.
#[derive(Clone)]
pub struct Endpoint {
    metrics: Arc<Metrics>,
    status: Arc<Status>,
    events: Events,
    /// Permits for one rendering at a time: each takes time and memory for every session.
    rendering: Arc<Semaphore>,
}

impl Endpoint {
    /// Endpoint of a program.
    pub fn new(metrics: Metrics, status: Status) -> Endpoint {
        let (metrics, status) = (Arc::new(metrics), Arc::new(status));
        let shown = (Arc::clone(&metrics), Arc::clone(&status));
        let events = Events::new(move || shown.1.json(&shown.0, Instant::now()).to_string());
        Endpoint { metrics, status, events, rendering: Arc::new(Semaphore::new(1)) }
    }

    /// Returns whether a path belongs to this endpoint.
    pub fn has(&self, path: &AssetPath) -> bool {
        matches!(path.as_bytes(), b"metrics" | b"api/status" | b"api/events")
    }

    /// Response for a path of this endpoint; `None` for other paths.
    pub async fn find(&self, path: &AssetPath) -> Option<Answer> {
        if !self.has(path) {
            return None;
        }
        let Endpoint { metrics, status, events, rendering } = self.clone();
        match path.as_bytes() {
            b"metrics" => Some(render(&rendering, metrics::CONTENT_TYPE, move || metrics.text()).await),
            b"api/status" => {
                let text = move || format!("{:#}\n", status.json(&metrics, Instant::now()));
                Some(render(&rendering, "application/json", text).await)
            }
            b"api/events" => Some(match events.subscribe() {
                Some(subscription) => Answer::of_events(subscription),
                None => Response::error(StatusCode::SERVICE_UNAVAILABLE, "too many listeners to events")
                    .header(header::RETRY_AFTER, "5")
                    .into(),
            }),
            _ => None,
        }
    }
}

impl Site for Endpoint {
    type Admission = ();

    async fn answer(&self, path: AssetPath, _: Request, _: (SocketAddr, ())) -> Answer {
        self.find(&path).await.unwrap_or_else(|| {
            let what = "only /metrics, /api/status and /api/events exist";
            Response::error(StatusCode::NOT_FOUND, what).into()
        })
    }
}

/// Renders on another thread, so that other clients do not wait: thousands of sessions take a while.
async fn render(
    rendering: &Semaphore,
    content_type: &str,
    text: impl FnOnce() -> String + Send + 'static,
) -> Answer {
    let _permit = rendering.acquire().await;
    match tokio::task::spawn_blocking(text).await {
        Ok(text) => {
            Response::with_body(StatusCode::OK, content_type, vec![BodyPart::Bytes(text.into_bytes())])
                .header(header::CACHE_CONTROL, "no-store")
                .into()
        }
        Err(error) => {
            tracing::error!(%error, "rendering the status failed");
            Response::error(StatusCode::INTERNAL_SERVER_ERROR, "rendering failed").into()
        }
    }
}
