//! TCP proxy: connects each client to one of several backends.
//!
//! The control plane, a single-threaded runtime, accepts connections, chooses backends, connects, checks
//! health and keeps time. Relayed bytes do not pass through the control plane: each connection is two streams
//! on the engine, one for each direction.

mod backend;
mod balance;
mod connection;
mod health;
mod health_check;
mod listener;
mod peer;
mod proxy_protocol;
mod shutdown;
mod status;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wirepath_engine::{Engine, EngineOptions};
use wirepath_net::program::end_after_panic;

pub use balance::Balance;
pub use health::HealthOptions;
pub use status::{BackendCounts, BackendStatus, Outcome, ProxyCounts, ProxyStatus};

use backend::Backend;
use balance::Balancer;
use connection::Shared;
use listener::Listener;
use status::ProxyCounters;

use crate::endpoint::Endpoint;
use crate::limits::{self, TooManyConnections};
use crate::metrics::MetricsEndpoint;

/// Descriptors of a relayed connection: three for each of the two sockets, and a pipe for each active
/// direction.
const DESCRIPTORS: u64 = 10;

/// Default limit of connections, if there are enough descriptors.
const DEFAULT_CONNECTIONS: usize = 20_000;

/// Options of a proxy.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Endpoints to listen on.
    pub listen: Vec<Endpoint>,
    /// Endpoints to connect clients to.
    pub backends: Vec<Endpoint>,
    /// Load balancing between the backends.
    pub balance: Balance,
    /// Number of engine threads, at least one.
    pub threads: usize,
    /// Time limit of connecting to a backend, over all its addresses.
    pub connect_timeout: Duration,
    /// Time without progress in either direction after which a connection is ended.
    pub idle_timeout: Option<Duration>,
    /// Limit of connections; further connections wait. The default is the number that the descriptors allow,
    /// up to 20,000.
    pub max_connections: Option<usize>,
    /// Health checks of backends.
    pub health: HealthOptions,
    /// Sends the client's address to backends (PROXY protocol, version 2).
    pub send_proxy: bool,
    /// Expects the client's address from clients (PROXY protocol, version 1 or 2).
    pub accept_proxy: bool,
    /// Time limit of open connections when the proxy drains.
    pub drain: Duration,
}

/// Error that prevents a proxy from starting.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Listening on an address failed.
    #[error("cannot listen on {0}: {1}")]
    Listen(Endpoint, #[source] io::Error),
    /// A backend is one of the proxy's own listeners.
    #[error("backend {0} is a listener of this proxy; name the server behind it")]
    Loop(Endpoint),
    /// Resolving a backend failed.
    #[error("cannot resolve the backend {0}: {1}")]
    Resolve(Endpoint, #[source] io::Error),
    /// There are not enough descriptors.
    #[error(transparent)]
    TooManyConnections(#[from] TooManyConnections),
    /// The engine cannot start.
    #[error("cannot start the engine: {0}")]
    System(#[from] io::Error),
}

/// Proxy that listens for clients.
pub struct Proxy {
    listeners: Vec<Listener>,
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    cut: watch::Sender<bool>,
}

/// View of a proxy's status. Can be used on any thread, and after the proxy has ended.
#[derive(Clone)]
pub struct ProxyView(Arc<Shared>);

impl Proxy {
    /// Resolves the backends and listens. Must be called on a tokio runtime, like `run`.
    pub async fn start(options: ProxyOptions) -> Result<Proxy, ProxyError> {
        let connections =
            limits::connections(options.max_connections, DESCRIPTORS, DEFAULT_CONNECTIONS, options.threads)?;
        let mut backends = Vec::new();
        for address in options.backends.clone() {
            let backend = Backend::new(address.clone(), options.health).await;
            backends.push(Arc::new(backend.map_err(|error| ProxyError::Resolve(address, error))?));
        }
        let mut listeners = Vec::new();
        for address in options.listen.clone() {
            let opened = Listener::open(&address).await;
            listeners.extend(opened.map_err(|error| ProxyError::Listen(address, error))?);
        }
        let is_own = |backend: &&Arc<Backend>| {
            backend.has_target(|target| listeners.iter().any(|listener| listener.is_reached_at(target)))
        };
        if let Some(own) = backends.iter().find(is_own) {
            return Err(ProxyError::Loop(own.endpoint().clone()));
        }
        let (cut, is_cut) = watch::channel(false);
        let shared = Arc::new(Shared {
            backends,
            balancer: Mutex::new(Balancer::new(options.balance)),
            engine: Arc::new(engine(options.threads)?),
            counters: ProxyCounters::default(),
            cut: is_cut,
            listening: listeners.iter().map(|listener| listener.name().to_owned()).collect(),
            begun: Instant::now(),
            options,
        });
        Ok(Proxy { listeners, shared, permits: Arc::new(Semaphore::new(connections)), cut })
    }

    /// Addresses of the proxy's listeners.
    pub fn listening(&self) -> &[String] {
        &self.shared.listening
    }

    /// Opens an HTTP endpoint with metrics and status.
    pub fn open_metrics(&self, address: SocketAddr) -> io::Result<MetricsEndpoint> {
        let engine = Arc::clone(&self.shared.engine);
        MetricsEndpoint::open(address, engine, |all, status| status::register(&self.view(), all, status))
    }

    /// View of the proxy's status.
    pub fn view(&self) -> ProxyView {
        ProxyView(Arc::clone(&self.shared))
    }

    /// Relays until `stop` completes, then drains: accepts no more connections and waits for the open ones.
    /// Returns whether all connections ended in time; the others are reset.
    pub async fn run(self, stop: impl Future<Output = ()>) -> bool {
        let Proxy { listeners, shared, permits, cut } = self;
        let ProxyOptions { health, connect_timeout, send_proxy, drain: limit, .. } = shared.options;
        let own: Arc<[SocketAddr]> = listeners.iter().filter_map(Listener::address).collect();
        let mut checks = JoinSet::new();
        for backend in &shared.backends {
            let (backend, own) = (Arc::clone(backend), Arc::clone(&own));
            checks.spawn(health_check::run(backend, health.interval, connect_timeout, send_proxy, own));
        }
        let (drain, is_draining) = watch::channel(false);
        let mut serving = JoinSet::new();
        for listener in listeners {
            serving.spawn(listener.serve(Arc::clone(&shared), Arc::clone(&permits), is_draining.clone()));
        }
        stop.await;
        shared.counters.draining.set(1);
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
    /// Status of the proxy. Reading the status costs the engine threads nothing.
    pub fn status(&self) -> ProxyStatus {
        let shared = &self.0;
        ProxyStatus {
            listening: shared.listening.clone(),
            seconds: shared.begun.elapsed().as_secs(),
            counts: shared.counters.read(),
            backends: shared.backends.iter().map(|backend| backend.status()).collect(),
        }
    }
}

fn engine(threads: usize) -> io::Result<Engine> {
    // Relayed bytes never wait for storage, so one pool thread suffices.
    let on_panic = Some(end_after_panic as fn(&str));
    Engine::start(EngineOptions { threads, pool_threads: 1, on_panic, ..EngineOptions::default() })
}
