//! HTTP cache in front of an origin (RFC 9111). A resource is fetched once, to a file and to all clients at
//! the same time; while it is fresh, it is served from the file.

mod access;
mod answer;
mod connection;
mod cost;
mod entry;
mod exchange;
mod fetch;
mod fetches;
mod folder;
mod head;
mod hops;
mod origin;
mod pass;
mod resolver;
mod rules;
mod status;
mod store;
mod transfer;
mod uncacheable;
mod upload;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use wirepath_engine::Engine;
use wirepath_net::http::reject;

use connection::Connection;
use cost::Cost;
use fetches::Fetches;
pub use folder::FolderError;
pub use origin::{Origin, OriginError};
pub use status::CacheStatus;
use status::Counters;
use store::Store;
use uncacheable::UncacheableKeys;

use crate::limits::{self, TooManyConnections};
use crate::metrics::MetricsEndpoint;

/// Descriptors of a client while bodies are sent in both directions: two sockets, each held three times, and
/// two pipes.
const CLIENT_DESCRIPTORS: u64 = 10;

/// Descriptors of a fetch: a socket, held twice while it is lent to the engine, the file of the body, a pipe,
/// and the file of the record.
const FETCH_DESCRIPTORS: u64 = 6;

/// Descriptors for each client. Each client may have started a fetch, which continues when the client has
/// left.
const DESCRIPTORS: u64 = CLIENT_DESCRIPTORS + FETCH_DESCRIPTORS;

/// Default limit of clients, if there are enough descriptors.
const DEFAULT_CONNECTIONS: usize = 4096;

const INDEX_BYTES: u64 = 1 << 30;

/// Options of a cache.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Folder of the entries: a new folder, an empty folder, or a cache folder.
    pub folder: PathBuf,
    /// Maximum total size of all entries, in bytes.
    pub budget_bytes: u64,
    /// Origin server.
    pub origin: Origin,
    /// Time limit for the origin to begin a response, to continue a response, and to continue reading a
    /// request.
    pub origin_limit: Duration,
    /// Time limit for a client to continue reading a response that passes through, or to continue sending a
    /// request.
    pub client_limit: Duration,
    /// Limit of client connections, and of fetches. The default is the number that the descriptors allow, up
    /// to 4096.
    pub connections: Option<NonZeroUsize>,
}

/// Error that prevents a cache from starting.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// There are not enough descriptors.
    #[error(transparent)]
    TooManyConnections(#[from] TooManyConnections),
    /// The origin is one of the cache's own listeners.
    #[error("the origin is this cache itself; name the server behind it with --origin")]
    Loop,
}

/// Cache that is ready to serve.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
    connections: Arc<Semaphore>,
}

/// State shared by all connections and fetches.
struct Shared {
    origin: Origin,
    origin_limit: Duration,
    client_limit: Duration,
    store: Arc<Store>,
    engine: Arc<Engine>,
    counters: Arc<Counters>,
    fetches: Fetches,
    uncacheable: UncacheableKeys,
    fetch_permits: Semaphore,
}

impl Cache {
    /// Opens and locks the folder, and removes unfinished files.
    pub fn open(options: CacheOptions, engine: Arc<Engine>) -> Result<Cache, CacheError> {
        let asked = options.connections.map(NonZeroUsize::get);
        let connections = limits::connections(asked, DESCRIPTORS, DEFAULT_CONNECTIONS, engine.threads())?;
        let counters = Arc::<Counters>::default();
        let budget = Cost { bytes: options.budget_bytes, memory: INDEX_BYTES };
        let store = Arc::new(Store::open(&options.folder, budget, Arc::clone(&counters))?);
        let shared = Shared {
            origin: options.origin,
            origin_limit: options.origin_limit,
            client_limit: options.client_limit,
            store,
            engine,
            counters,
            fetches: Fetches::default(),
            uncacheable: UncacheableKeys::default(),
            fetch_permits: Semaphore::new(connections),
        };
        Ok(Cache { shared: Arc::new(shared), connections: Arc::new(Semaphore::new(connections)) })
    }

    /// Sets the addresses of the cache's listeners. Must be called once, before the cache serves.
    ///
    /// # Errors
    /// [`CacheError::Loop`] if the URL of the origin has the address of a listener. A host name is checked
    /// when it is resolved.
    pub fn set_listeners(&self, listeners: Vec<SocketAddr>) -> Result<(), CacheError> {
        let origin = &self.shared.origin;
        origin.set_listeners(listeners);
        let is_loop = origin.known().is_some_and(|address| origin.is_this_cache(address));
        if is_loop { Err(CacheError::Loop) } else { Ok(()) }
    }

    /// Status of the cache.
    pub fn status(&self) -> CacheStatus {
        let (entries, bytes) = self.shared.store.size();
        self.shared.counters.entries.set(entries);
        self.shared.counters.kept_bytes.set(bytes);
        self.shared.counters.snapshot()
    }

    /// Opens an HTTP endpoint with metrics and status.
    pub fn open_metrics(&self, address: SocketAddr) -> io::Result<MetricsEndpoint> {
        let engine = Arc::clone(&self.shared.engine);
        MetricsEndpoint::open(address, engine, |all, status| status::register(self, all, status))
    }

    /// Serves clients until `drain` becomes true or its sender is dropped. It then accepts no more clients,
    /// and returns when the last response is sent and its connection closed. Must run on a tokio runtime, on
    /// which fetches continue.
    pub async fn serve(&self, listener: TcpListener, drain: watch::Receiver<bool>) {
        let for_connections = drain.clone();
        wirepath_net::serve("cache", listener, drain, None, |(stream, _)| {
            let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
                self.shared.counters.refused.increment();
                reject(&stream);
                return None;
            };
            Some(Connection::new(stream, Arc::clone(&self.shared), permit, for_connections.clone()).run())
        })
        .await;
    }
}
