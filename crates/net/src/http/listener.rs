//! The listening side: accepts connections within limits.

use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use wirepath_engine::Engine;

use super::connection::reject;
use super::counters::{Counters, Counts};
use super::exchange::{Exchanges, Shared, Site};
use super::options::HttpOptions;
use crate::descriptors::DescriptorBudget;
use crate::http_threads::{HttpThreads, move_here};
use crate::limits::{ClientLimits, Exceeded};
use crate::metrics::Metrics;
use crate::reserved_listener::ReservedListener;
use crate::status::Status;

/// HTTP listener that does not listen yet.
pub struct Listener {
    options: HttpOptions,
    counters: Arc<Counters>,
    limits: Arc<ClientLimits>,
    descriptors: Arc<DescriptorBudget>,
    threads: Option<HttpThreads>,
}

impl Listener {
    /// A listener with these limits.
    pub fn new(options: HttpOptions) -> Self {
        let limits = ClientLimits::new(options.max_connections, options.max_connections_per_address);
        let descriptors = DescriptorBudget::unlimited();
        Self { options, counters: Arc::default(), limits, descriptors, threads: None }
    }

    /// The same listener; its clients take descriptors of this budget.
    pub fn within(self, descriptors: Arc<DescriptorBudget>) -> Self {
        Self { descriptors, ..self }
    }

    /// The same listener, whose connections are served by these threads and not by the one that accepts them.
    pub fn on(self, threads: HttpThreads) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Adds the listener's counters and limits to metrics and status.
    pub fn register(&self, metrics: &mut Metrics, status: &mut Status) {
        let (counters, limits) = (Arc::clone(&self.counters), Arc::clone(&self.limits));
        metrics.register("http", Counts::METRICS, move || {
            counters.connections.set(limits.open() as u64);
            counters.snapshot()
        });
        let (limits, options) = (Arc::clone(&self.limits), self.options.clone());
        status.add("http", move || {
            json!({
                "connections": limits.open(),
                "limits": {
                    "connections": options.max_connections,
                    "connections_per_address": options.max_connections_per_address,
                },
            })
        });
    }

    /// Serves a site until `drain` becomes true or its sender is dropped; then accepts no more, lets the
    /// answers that have begun end, and returns when the last connection is closed. The thread that serves a
    /// connection sends bodies of up to 2 MiB that are in the page cache, and the engine all others. Dropping
    /// the future requests the end of all connections.
    pub async fn serve(
        self,
        listener: TcpListener,
        site: impl Site,
        engine: Arc<Engine>,
        drain: watch::Receiver<bool>,
    ) {
        let Self { options, counters, limits, descriptors, threads } = self;
        let shared = Arc::new(Shared { options, counters, site, engine, descriptors });
        let for_connections = drain.clone();
        let (threads, listener) = (threads.as_ref(), ReservedListener::new(listener));
        crate::serve("HTTP", listener, drain, threads, |(stream, peer)| {
            let admit = || Ok((limits.admit(peer.ip())?, shared.descriptors.admit(peer.ip(), 1)?));
            let permits: Result<_, Exceeded> = admit();
            let Ok(permits) = permits else {
                shared.counters.connections_refused.increment();
                reject(&stream);
                return None;
            };
            let (shared, drain, moves) = (Arc::clone(&shared), for_connections.clone(), threads.is_some());
            Some(async move {
                match if moves { move_here(stream).await } else { Ok(stream) } {
                    Ok(stream) => Exchanges::new(stream, peer, shared, permits, drain).run().await,
                    Err(error) => tracing::debug!(%peer, %error, "HTTP connection failed"),
                }
            })
        })
        .await;
    }
}
