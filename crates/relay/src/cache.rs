//! A caching HTTP proxy: what is asked for is fetched from the origin once, goes to a file and to all who
//! want it at the same time, and is answered from there as long as it may be (RFC 9111).

mod access;
mod answer;
mod connection;
mod cost;
mod entry;
mod exchange;
mod fetch;
mod fetches;
mod flow;
mod folder;
mod head;
mod hops;
mod metrics;
mod names;
mod origin;
mod pass;
mod rules;
mod status;
mod store;
mod unkept;
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
use status::{Counters, count};
use store::Store;
use unkept::Unkept;

use crate::limits::{self, TooManyConnections};
use crate::metrics::MetricsEndpoint;

/// Descriptors of a client, while bodies go both ways: two sockets, each held three times, and two pipes.
const OF_CLIENT: u64 = 10;

/// Those of a fetch: a socket, held twice while it is lent to the engine, the file of the body, a pipe, and
/// the file of the record at its end.
const OF_FETCH: u64 = 6;

/// There may be as many fetches as clients, beside what those do: they go on when who wanted them has left.
const EACH: u64 = OF_CLIENT + OF_FETCH;

/// Most clients unless said otherwise, if there are descriptors for so many.
const USUAL: usize = 4096;

/// Most memory of the index.
const INDEX_BYTES: u64 = 1 << 30;

/// How a cache is set up.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Where entries are kept: a new or empty folder, or one that was a cache before.
    pub folder: PathBuf,
    /// Most bytes that they take.
    pub budget_bytes: u64,
    /// Whom to ask.
    pub origin: Origin,
    /// How long the origin may take to begin an answer, and how long it may send nothing within one, or take
    /// nothing of a request.
    pub origin_limit: Duration,
    /// How long a client may take nothing of an answer that passes through, or send nothing of a request.
    pub client_limit: Duration,
    /// Most client connections, and most fetches at a time; none for as many as there are descriptors for,
    /// and 4096 at most.
    pub connections: Option<NonZeroUsize>,
}

/// A cache cannot start.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Its folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Descriptors do not suffice.
    #[error(transparent)]
    TooManyConnections(#[from] TooManyConnections),
    /// It would ask itself. The operator's to name another origin.
    #[error("the origin is this cache itself; name the server behind it with --origin")]
    BeforeItself,
}

/// A cache that is ready to serve.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
    connections: Arc<Semaphore>,
}

/// What all connections and fetches share.
struct Shared {
    origin: Origin,
    origin_limit: Duration,
    client_limit: Duration,
    store: Arc<Store>,
    engine: Arc<Engine>,
    counters: Arc<Counters>,
    fetches: Fetches,
    unkept: Unkept,
    fetch_places: Semaphore,
}

impl Cache {
    /// Opens the folder, which is this process's alone from here on, and removes what another one left
    /// unfinished there.
    ///
    /// # Errors
    /// [`CacheError`].
    pub fn open(options: CacheOptions, engine: Arc<Engine>) -> Result<Cache, CacheError> {
        let request = options.connections.map(NonZeroUsize::get);
        let connections = limits::connections(request, EACH, USUAL, engine.threads())?;
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
            unkept: Unkept::default(),
            fetch_places: Semaphore::new(connections),
        };
        Ok(Cache { shared: Arc::new(shared), connections: Arc::new(Semaphore::new(connections)) })
    }

    /// Has it ask nobody who listens there: that is itself. To be called once, before it serves.
    ///
    /// # Errors
    /// [`CacheError::BeforeItself`], as far as the origin's URL tells without asking for a name. Where that
    /// is asked for later, requests are refused.
    pub fn listens_at(&self, doors: Vec<SocketAddr>) -> Result<(), CacheError> {
        self.shared.origin.leave_out(doors);
        let is_itself =
            self.shared.origin.known().is_some_and(|origin| self.shared.origin.leads_back(origin));
        if is_itself { Err(CacheError::BeforeItself) } else { Ok(()) }
    }

    /// What it did so far.
    pub fn status(&self) -> CacheStatus {
        self.shared.counters.status(self.shared.store.size())
    }

    /// Opens an HTTP endpoint with metrics and status.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open_metrics(&self, address: SocketAddr) -> io::Result<MetricsEndpoint> {
        let engine = Arc::clone(&self.shared.engine);
        MetricsEndpoint::open(address, engine, |all, status| metrics::register(self, all, status))
    }

    /// Serves clients until `drain` becomes true or its sender is dropped; then takes no more, lets the
    /// answers that have begun end, and returns when the last connection is closed. Must run on a tokio
    /// runtime, on which fetches go on until it ends.
    pub async fn serve(&self, listener: TcpListener, drain: watch::Receiver<bool>) {
        let for_connections = drain.clone();
        wirepath_net::serve("cache", listener, drain, |(stream, _)| {
            let Ok(place) = Arc::clone(&self.connections).try_acquire_owned() else {
                count(&self.shared.counters.refused);
                reject(&stream);
                return None;
            };
            Some(Connection::new(stream, Arc::clone(&self.shared), place, for_connections.clone()).run())
        })
        .await;
    }
}
