//! The listening socket: takes connections within limits, and ends when told to.

use super::connection::Connection;
use super::counters::{COUNTERS, Counters};
use crate::library::Library;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::status::Status;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use wirepath_streams::Engine;

/// How long to wait before the next try when no connection can be taken for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a client gets that is one too many.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Limits and times of the door.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Most connections.
    pub max_connections: usize,
    /// Most connections from one address; of IPv6, from one /64 network.
    pub max_connections_per_address: usize,
    /// How long a connection may stay silent between requests.
    pub idle_timeout: Duration,
    /// How long a request head may take from its first byte to its last.
    pub head_timeout: Duration,
    /// How long a client may take to take an answer that is not a file.
    pub write_timeout: Duration,
    /// The port of the RTSP door, to which listings link.
    pub rtsp_port: Option<u16>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_connections_per_address: 256,
            idle_timeout: Duration::from_secs(60),
            head_timeout: Duration::from_secs(20),
            write_timeout: Duration::from_secs(30),
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
    pub async fn serve(self, listener: TcpListener, site: Site, mut drain: watch::Receiver<bool>) {
        let limits = Limits::new(self.options.max_connections, self.options.max_connections_per_address);
        let shared = Arc::new(Shared { options: self.options, counters: self.counters, site });
        let mut tasks = JoinSet::new();
        let for_connections = drain.clone();
        loop {
            tokio::select! {
                // Told to, or nobody is left who could tell: both are the end.
                _ = drain.wait_for(|&drain| drain) => break,
                Some(ended) = tasks.join_next() => report(ended),
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => match limits.admit(peer.ip()) {
                        Ok(permit) => {
                            let shared = Arc::clone(&shared);
                            let drain = for_connections.clone();
                            tasks.spawn(Connection::new(stream, peer, shared, permit, drain).run());
                        }
                        Err(_) => refuse(&stream, peer, &shared.counters),
                    },
                    Err(error) => pause(error).await,
                },
            }
        }
        drop(listener);
        while let Some(ended) = tasks.join_next().await {
            report(ended);
        }
    }
}

/// Says so without waiting, and closes.
fn refuse(stream: &TcpStream, peer: SocketAddr, counters: &Counters) {
    Counters::add(&counters.refused, 1);
    let sent = send(stream, FULL, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let shut = shutdown(stream, Shutdown::Write);
    tracing::debug!(%peer, ?sent, ?shut, "refused an HTTP connection: a limit is reached");
}

/// A connection that could not be taken: its own fault, or there is no room for any.
async fn pause(error: io::Error) {
    if error.kind() == io::ErrorKind::ConnectionAborted {
        return;
    }
    tracing::warn!(%error, "cannot take an HTTP connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "an HTTP connection's task failed");
    }
}
