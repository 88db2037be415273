//! The listening side: accepts connections within limits.

use super::connection;
use super::counters::Counts;
use super::player::Player;
use super::shared::{RtspOptions, Shared};
use super::tunnel_entrance::TunnelEntrance;
use serde_json::json;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use wirepath_net::auth::AccessControl;
use wirepath_net::http::TakenOver;
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;
use wirepath_net::tls::{self, Terminator};
use wirepath_net::{Addresses, DescriptorBudget, ReservedListener};

/// Handle that ends sessions of a listener.
pub(crate) struct SessionControl(Arc<Shared>);

impl SessionControl {
    /// Begins to end the session with this number; returns whether there is one. It ends as after TEARDOWN,
    /// and its connection is closed if it has no other session.
    pub(crate) fn end(&self, number: u64) -> bool {
        self.0.registry.end(number)
    }
}

/// RTSP listener that does not listen yet.
pub(crate) struct Listener(pub(super) Arc<Shared>);

impl Listener {
    /// A listener that serves the presentations of `player`; with `access` control only to users.
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

    /// Numbers of open connections and sessions.
    pub(crate) fn open(&self) -> (usize, usize) {
        (self.0.limits.open(), self.0.registry.len())
    }

    /// Handle for administrators.
    pub(crate) fn session_control(&self) -> SessionControl {
        SessionControl(Arc::clone(&self.0))
    }

    /// Entry for connections that come through HTTP tunnels.
    pub(crate) fn tunnel_entrance(&self) -> TunnelEntrance {
        TunnelEntrance(Arc::clone(&self.0))
    }

    /// Accepts connections until `closing` holds true, and serves them until they end. When `shutdown` holds
    /// true (or its sender is dropped), every session ends with a BYE. Returns when the last response is
    /// written; the caller limits the waiting.
    pub(crate) async fn serve(
        &self,
        listener: TcpListener,
        closing: watch::Receiver<bool>,
        shutdown: watch::Receiver<bool>,
    ) {
        self.0.reports.start();
        wirepath_net::serve("RTSP", ReservedListener::new(listener), closing, None, |(stream, peer)| {
            let Some(permits) = self.0.admit(peer.ip(), 1) else {
                connection::reject(&stream);
                return None;
            };
            let (shared, shutdown) = (Arc::clone(&self.0), shutdown.clone());
            let addresses = Addresses::of(&stream, peer, false).ok()?;
            Some(serve_one(stream, addresses, shared, shutdown, permits))
        })
        .await;
    }

    /// Like [`serve`](Listener::serve), over TLS. A client beyond a limit gets no response, since its
    /// handshake would cost too much.
    pub(crate) async fn serve_securely(
        &self,
        listener: TcpListener,
        terminator: Arc<Terminator>,
        closing: watch::Receiver<bool>,
        shutdown: watch::Receiver<bool>,
    ) {
        self.0.reports.start();
        wirepath_net::serve("RTSPS", ReservedListener::new(listener), closing, None, |(stream, peer)| {
            let permits = self.0.admit(peer.ip(), tls::DESCRIPTORS)?;
            let (shared, shutdown) = (Arc::clone(&self.0), shutdown.clone());
            let terminator = Arc::clone(&terminator);
            Some(async move {
                if let Ok(addresses) = Addresses::of(&stream, peer, true) {
                    let serve = |stream| serve_one(stream, addresses, shared, shutdown.clone(), ());
                    terminator.serve(stream, peer, shutdown.clone(), serve).await;
                }
                drop(permits);
            })
        })
        .await;
    }
}

/// Serves a connection, which may be half of a tunnel, with its permits. Rare parts are boxed, so that other
/// connections are not larger.
///
/// This is not an `async fn`, which would store the arguments in addition to what is made of them.
fn serve_one(
    stream: TcpStream,
    addresses: Addresses,
    shared: Arc<Shared>,
    shutdown: watch::Receiver<bool>,
    permits: impl Send,
) -> impl Future<Output = ()> + Send {
    let connection = Box::pin(connection::serve(stream, addresses, Arc::clone(&shared), shutdown));
    async move {
        let half = connection.await.map(|half| Box::pin(serve_half(shared, half)));
        if let Some(half) = half {
            half.await;
        }
        drop(permits);
    }
}

async fn serve_half(shared: Arc<Shared>, half: TakenOver) {
    TunnelEntrance(shared).serve_unread(half).await;
}
