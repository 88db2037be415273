//! The listening side: accepts connections within limits.

use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use wirepath_engine::Engine;

use super::access_log::AccessLog;
use super::connection::{Timeouts, reject};
use super::counters::{Counters, Counts};
use super::exchange::{Exchanges, Site};
use crate::limits::ClientLimits;
use crate::metrics::Metrics;
use crate::status::Status;

/// Limits of an HTTP listener.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Most connections.
    pub max_connections: usize,
    /// Most connections from one address; of IPv6, from one /64 network.
    pub max_connections_per_address: usize,
    /// Time limits for clients.
    pub timeouts: Timeouts,
    /// Form of the access log; none for no such log.
    pub access_log: Option<AccessLog>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_connections_per_address: 256,
            timeouts: Timeouts::default(),
            access_log: None,
        }
    }
}

/// HTTP listener that does not listen yet.
pub struct Listener {
    options: HttpOptions,
    counters: Arc<Counters>,
}

/// State that all connections share.
pub(super) struct Shared<S> {
    pub(super) options: HttpOptions,
    pub(super) counters: Arc<Counters>,
    pub(super) site: S,
    pub(super) engine: Arc<Engine>,
}

impl Listener {
    /// A listener with these limits.
    pub fn new(options: HttpOptions) -> Self {
        Self { options, counters: Arc::default() }
    }

    /// Adds the listener's counters and limits to metrics and status.
    pub fn register(&self, metrics: &mut Metrics, status: &mut Status) {
        let counters = Arc::clone(&self.counters);
        metrics.register("http", Counts::METRICS, move || counters.snapshot());
        let (counters, options) = (Arc::clone(&self.counters), self.options.clone());
        status.add("http", move || {
            json!({
                "connections": counters.connections.value(),
                "limits": {
                    "connections": options.max_connections,
                    "connections_per_address": options.max_connections_per_address,
                },
            })
        });
    }

    /// Serves a site until `drain` becomes true or its sender is dropped; then accepts no more, lets the
    /// answers that have begun end, and returns when the last connection is closed. Bodies of files are sent
    /// by the engine. Dropping the future ends all at once.
    pub async fn serve(
        self,
        listener: TcpListener,
        site: impl Site,
        engine: Arc<Engine>,
        drain: watch::Receiver<bool>,
    ) {
        let limits =
            ClientLimits::new(self.options.max_connections, self.options.max_connections_per_address);
        let shared = Arc::new(Shared { options: self.options, counters: self.counters, site, engine });
        let for_connections = drain.clone();
        crate::serve("HTTP", listener, drain, |(stream, peer)| {
            let Ok(permit) = limits.admit(peer.ip()) else {
                shared.counters.connections_refused.increment();
                reject(&stream);
                return None;
            };
            let drain = for_connections.clone();
            Some(Exchanges::new(stream, peer, Arc::clone(&shared), permit, drain).run())
        })
        .await;
    }
}
