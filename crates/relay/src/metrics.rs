//! Metrics of relays: their declaration, and the HTTP endpoint that shows them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Builder;
use tokio::sync::watch;
use wirepath_engine::Engine;
use wirepath_net::http::{self, Endpoint, HttpOptions, Site};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;

/// Maximum number of clients of the endpoint. The connection limit of the proxy leaves descriptors for them.
const MAX_CONNECTIONS: usize = 32;

/// Declares metrics of a snapshot: name, help text, and the value in the snapshot.
macro_rules! metrics {
    ($($name:literal, $help:literal, |$snapshot:ident| $value:expr;)+) => {
        &[$(wirepath_counters::Metric::new($name, $help, |$snapshot| $value),)+]
    };
}
pub(crate) use metrics;

/// HTTP endpoint with `/metrics` and `/api/status`. Runs on its own thread until it is dropped.
pub struct MetricsEndpoint {
    address: SocketAddr,
    _drain: watch::Sender<bool>,
}

impl MetricsEndpoint {
    /// Listens for clients, and shows the metrics and the status that `register` adds.
    pub(crate) fn open(
        address: SocketAddr,
        engine: Arc<Engine>,
        register: impl FnOnce(&mut Metrics, &mut Status),
    ) -> io::Result<MetricsEndpoint> {
        MetricsEndpoint::open_site(address, engine, register, |endpoint| endpoint)
    }

    /// Like [`MetricsEndpoint::open`], for a site that contains the endpoint.
    pub(crate) fn open_site<S: Site>(
        address: SocketAddr,
        engine: Arc<Engine>,
        register: impl FnOnce(&mut Metrics, &mut Status),
        site: impl FnOnce(Endpoint) -> S,
    ) -> io::Result<MetricsEndpoint> {
        let listener = http::Listener::new(HttpOptions {
            max_connections: MAX_CONNECTIONS,
            max_connections_per_address: MAX_CONNECTIONS,
            ..HttpOptions::default()
        });
        let (mut metrics, mut status) = (Metrics::of_process(), Status::new(Instant::now()));
        listener.register(&mut metrics, &mut status);
        register(&mut metrics, &mut status);
        let site = site(Endpoint::new(metrics, status));

        let runtime = Builder::new_current_thread().enable_all().build()?;
        let failed = |error: io::Error| {
            let why = "choose another with --metrics ADDRESS:PORT";
            io::Error::new(error.kind(), format!("cannot listen for metrics on {address}: {error}; {why}"))
        };
        let socket = {
            let _inside = runtime.enter();
            wirepath_net::bind(address).map_err(failed)?
        };
        let address = socket.local_addr()?;
        tracing::info!("metrics at http://{address}/metrics");
        let (drain, draining) = watch::channel(false);
        let serve = move || runtime.block_on(listener.serve(socket, site, engine, draining));
        std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(MetricsEndpoint { address, _drain: drain })
    }

    /// Address of the endpoint.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
