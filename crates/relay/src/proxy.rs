//! A TCP proxy: clients come in at doors, and each is connected to one of several backends.
//!
//! The control plane, a single-threaded runtime, takes connections, chooses backends, connects, checks and keeps time. What is relayed it
//! never sees: that is two streams for each connection, one for each direction, on the engine.

mod backend;
mod balance;
mod checks;
mod connection;
mod door;
mod endpoint;
mod ends;
mod health;
mod link;
mod proxy_protocol;
mod status;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wirepath_streams::datapath::Support;
use wirepath_streams::datapath::calibration::Calibrations;
use wirepath_streams::{BlockingPool, Engine, EngineOptions, Importance};

pub use balance::Balance;
pub use endpoint::Endpoint;
pub use health::HealthOptions;
pub use status::{BackendStatus, ConnectionCounts, ProxyStatus};

use backend::Backend;
use balance::Balancer;
use connection::Shared;
use door::Door;

use crate::limits::{self, TooManyConnections};

/// Descriptors of a connection: each of two sockets is read, written and held, and each direction that moves has a pipe.
const EACH: u64 = 10;

/// Connections unless said otherwise, if there are descriptors for so many.
const USUAL: usize = 20_000;

/// Everything that can be set about a proxy.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Where it listens.
    pub listen: Vec<Endpoint>,
    /// Where connections go.
    pub backends: Vec<Endpoint>,
    /// To which of them.
    pub balance: Balance,
    /// Engine threads; at least one.
    pub threads: usize,
    /// How long connecting to one backend may take, by all addresses that its name has.
    pub connect_timeout: Duration,
    /// A connection of which neither direction moves anything for so long is ended.
    pub idle_timeout: Option<Duration>,
    /// Most connections at a time; none for as many as there are descriptors for, and 20,000 at most. More wait to be taken.
    pub max_connections: Option<usize>,
    /// When backends count as there.
    pub health: HealthOptions,
    /// Whether backends are told who the client is (PROXY protocol, version 2).
    pub send_proxy: bool,
    /// Whether clients say who they are (PROXY protocol, version 1 or 2).
    pub accept_proxy: bool,
    /// How long connections may go on when the proxy is to end.
    pub drain: Duration,
}

/// A proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// An address cannot be listened on.
    #[error("{address}: listening: {source}")]
    Listen {
        /// The address.
        address: Endpoint,
        /// What the system said.
        source: io::Error,
    },
    /// A backend is one of the addresses that it listens on.
    #[error("{0} is where the proxy itself listens; name the server behind it")]
    Itself(Endpoint),
    /// A backend has no address.
    #[error("{address}: asking for its address: {source}")]
    Resolve {
        /// The backend.
        address: Endpoint,
        /// What the resolver said.
        source: io::Error,
    },
    /// Descriptors do not suffice.
    #[error(transparent)]
    TooManyConnections(#[from] TooManyConnections),
    /// Threads could not be had.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// A proxy that listens.
pub struct Proxy {
    doors: Vec<Door>,
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    cut: watch::Sender<bool>,
    view: ProxyView,
}

/// Tells what a proxy does, on any thread, also when it has ended.
#[derive(Clone)]
pub struct ProxyView {
    shared: Arc<Shared>,
    listening: Arc<[String]>,
    draining: Arc<AtomicBool>,
    begun: Instant,
}

impl Proxy {
    /// Finds the backends and listens; must be called on a tokio runtime, as `run`.
    ///
    /// # Errors
    /// [`ProxyError`].
    pub async fn start(options: ProxyOptions) -> Result<Proxy, ProxyError> {
        let connections = limits::connections(options.max_connections, EACH, USUAL, options.threads)?;
        let mut backends = Vec::new();
        for address in options.backends.clone() {
            let backend = Backend::new(address.clone(), options.health).await;
            backends.push(Arc::new(backend.map_err(|source| ProxyError::Resolve { address, source })?));
        }
        let mut doors = Vec::new();
        for address in options.listen.clone() {
            let opened = Door::open(&address).await;
            doors.extend(opened.map_err(|source| ProxyError::Listen { address, source })?);
        }
        if let Some(itself) = backends.iter().find(|backend| doors.iter().any(|door| backend.is_at(door))) {
            return Err(ProxyError::Itself(itself.endpoint().clone()));
        }
        let (cut, is_cut) = watch::channel(false);
        let shared = Arc::new(Shared {
            backends,
            balancer: Mutex::new(Balancer::new(options.balance)),
            engine: Arc::new(engine(options.threads)?),
            totals: status::Totals::default(),
            cut: is_cut,
            options,
        });
        let view = ProxyView {
            shared: Arc::clone(&shared),
            listening: doors.iter().map(|door| door.name().to_owned()).collect(),
            draining: Arc::default(),
            begun: Instant::now(),
        };
        Ok(Proxy { doors, shared, permits: Arc::new(Semaphore::new(connections)), cut, view })
    }

    /// Where it listens.
    pub fn listening(&self) -> &[String] {
        &self.view.listening
    }

    /// What its connections run on.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    /// For whoever wants to know what it does.
    pub fn view(&self) -> ProxyView {
        self.view.clone()
    }

    /// Relays until `stop` is over, then takes no more connections and waits for those that there are; answers whether all ended in
    /// time. The others are reset.
    pub async fn run(self, stop: impl Future<Output = ()>) -> bool {
        let Proxy { doors, shared, permits, cut, view } = self;
        let ProxyOptions { health, connect_timeout, send_proxy, drain: limit, .. } = shared.options;
        let own: Arc<[SocketAddr]> = doors.iter().filter_map(Door::address).collect();
        let mut checks = JoinSet::new();
        for backend in &shared.backends {
            let (backend, own) = (Arc::clone(backend), Arc::clone(&own));
            checks.spawn(checks::look_after(backend, health.interval, connect_timeout, send_proxy, own));
        }
        let (drain, is_draining) = watch::channel(false);
        let mut serving = JoinSet::new();
        for door in doors {
            serving.spawn(door.serve(Arc::clone(&shared), Arc::clone(&permits), is_draining.clone()));
        }
        stop.await;
        view.draining.store(true, Relaxed);
        // The doors listen as long as they serve.
        _ = drain.send(true);
        let mut ended = async || while serving.join_next().await.is_some() {};
        let in_time = timeout(limit, ended()).await.is_ok();
        if !in_time {
            _ = cut.send(true);
            ended().await;
        }
        in_time
    }
}

impl ProxyView {
    /// What it has done so far. Costs the engine's threads nothing.
    pub fn status(&self) -> ProxyStatus {
        let backends: Vec<BackendStatus> =
            self.shared.backends.iter().map(|backend| backend.status()).collect();
        ProxyStatus {
            schema: status::SCHEMA,
            listening: self.listening.to_vec(),
            draining: self.draining.load(Relaxed),
            seconds: self.begun.elapsed().as_secs(),
            connections: self.shared.totals.counts(),
            bytes_to_backends: backends.iter().map(|backend| backend.bytes_to_backend).sum(),
            bytes_to_clients: backends.iter().map(|backend| backend.bytes_to_client).sum(),
            backends,
        }
    }
}

fn engine(threads: usize) -> io::Result<Engine> {
    // Nothing that is relayed waits for storage.
    let readers = BlockingPool::start("reader", 1, Importance::Equal)?;
    let support = Arc::new(Support::probe(None, Calibrations::default(), false));
    Engine::start(&EngineOptions { threads, ..EngineOptions::default() }, support, &readers)
}
