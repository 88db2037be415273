//! The listening socket: takes connections within limits, and ends when told to.

use super::connection::Connection;
use super::counters::{COUNTERS, Counters};
use crate::library::Library;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::status::Status;
use serde_json::json;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use wirepath_doors as doors;
use wirepath_engine::Engine;

/// Limits and times of the door.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Most connections.
    pub max_connections: usize,
    /// Most connections from one address; of IPv6, from one /64 network.
    pub max_connections_per_address: usize,
    /// How long a client may take.
    pub limits: doors::Limits,
    /// The port of the RTSP door, to which listings link.
    pub rtsp_port: Option<u16>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_connections_per_address: 256,
            limits: doors::Limits::default(),
            rtsp_port: None,
        }
    }
}

/// What is behind the door.
pub struct Site {
    /// The files, if it serves any.
    pub library: Option<Arc<Library>>,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// What `/api/status` shows.
    pub status: Arc<Status>,
    /// Who sends files.
    pub engine: Arc<Engine>,
}

/// The door itself.
pub struct Door {
    options: HttpOptions,
    counters: Arc<Counters>,
}

/// What all connections share.
pub(super) struct Shared {
    pub(super) options: HttpOptions,
    pub(super) counters: Arc<Counters>,
    pub(super) site: Site,
}

impl Door {
    /// A door that is not open yet.
    pub fn new(options: HttpOptions) -> Self {
        Self { options, counters: Arc::default() }
    }

    /// Adds what the door counts, and its limits, to what is shown.
    pub fn register(&self, metrics: &mut Metrics, status: &mut Status) {
        let counters = Arc::clone(&self.counters);
        metrics.register("http", COUNTERS, move || counters.counts());
        let (counters, options) = (Arc::clone(&self.counters), self.options.clone());
        status.add("http", move || {
            json!({
                "connections": counters.counts().open,
                "limits": {
                    "connections": options.max_connections,
                    "connections_per_address": options.max_connections_per_address,
                },
            })
        });
    }

    /// Takes connections until `drain` becomes true or its sender is dropped; then takes no more, lets the answers
    /// that have begun end, and returns when the last connection is closed. Dropping the future ends all at once.
    pub async fn serve(self, listener: TcpListener, site: Site, drain: watch::Receiver<bool>) {
        let limits = Limits::new(self.options.max_connections, self.options.max_connections_per_address);
        let shared = Arc::new(Shared { options: self.options, counters: self.counters, site });
        let for_connections = drain.clone();
        doors::serve("HTTP", listener, drain, |(stream, peer)| {
            let Ok(permit) = limits.admit(peer.ip()) else {
                Counters::add(&shared.counters.refused, 1);
                doors::turn_away(&stream);
                return None;
            };
            let drain = for_connections.clone();
            Some(Connection::new(stream, peer, Arc::clone(&shared), permit, drain).run())
        })
        .await;
    }
}
