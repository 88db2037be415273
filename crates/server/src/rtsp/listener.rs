//! The listening side: accepts connections within limits.

use super::connection;
use super::counters::Counts;
use super::player::Player;
use super::shared::{RtspOptions, Shared};
use serde_json::json;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use wirepath_net::auth::AccessControl;
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;
use wirepath_net::{DescriptorBudget, ReservedListener};

/// RTSP listener that does not listen yet.
pub(crate) struct Listener(pub(super) Arc<Shared>);

impl Listener {
    /// A listener that serves the presentations of `player`, to users only where there is `access` control.
    pub(crate) fn new(
        player: Arc<dyn Player>,
        options: RtspOptions,
        descriptors: Arc<DescriptorBudget>,
        access: Option<Arc<AccessControl>>,
    ) -> Self {
        Self(Arc::new(Shared::new(player, options, descriptors, access)))
    }

    /// Adds the listener's counters, limits and sessions to metrics and status.
    pub(crate) fn register(&self, metrics: &mut Metrics, status: &mut Status) {
        let shared = Arc::clone(&self.0);
        metrics.register("rtsp", Counts::METRICS, move || shared.counts());
        let shared = Arc::clone(&self.0);
        status.add("rtsp", move || {
            json!({
                "connections": shared.limits.open(),
                "limits": {
                    "connections": shared.options.connections,
                    "connections_per_address": shared.options.connections_per_address,
                    "sessions": shared.options.sessions,
                    "sessions_per_address": shared.options.sessions_per_address,
                    "sessions_per_connection": shared.options.sessions_per_connection,
                },
            })
        });
        let shared = Arc::clone(&self.0);
        status.add("sessions", move || shared.registry.json().into());
    }

    /// Serves until `shutdown` holds true (or its sender is dropped); then ends every session with a BYE and
    /// returns when the last response is written. The caller decides how long it waits for that.
    pub(crate) async fn serve(&self, listener: TcpListener, shutdown: watch::Receiver<bool>) {
        let for_connections = shutdown.clone();
        wirepath_net::serve("RTSP", ReservedListener::new(listener), shutdown, None, |(stream, peer)| {
            let Some(permits) = self.0.admit(peer.ip()) else {
                connection::reject(&stream);
                return None;
            };
            let (shared, shutdown) = (Arc::clone(&self.0), for_connections.clone());
            Some(async move {
                connection::serve(stream, shared, shutdown).await;
                drop(permits);
            })
        })
        .await;
    }
}
