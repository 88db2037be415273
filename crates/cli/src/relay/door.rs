//! `--metrics`: the server's HTTP door with nothing but `/metrics` and `/api/status` behind it, on a thread of its own. What it shows
//! was put down before it is asked for, so nobody who asks, however often, costs a stream anything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;
use wirepath_net::http::{self, Endpoint, HttpOptions};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;
use wirepath_streams::Engine;

/// Whoever asks is one of few; more of them than this are refused. A proxy's limit leaves descriptors for them.
const CONNECTIONS: usize = 32;

/// A door that is open until this is dropped.
pub(super) struct Door {
    address: SocketAddr,
    _drain: watch::Sender<bool>,
}

impl Door {
    /// Opens it for what `register` adds: tables of numbers, and parts of the status.
    pub(super) fn open(
        address: SocketAddr,
        engine: Arc<Engine>,
        register: impl FnOnce(&mut Metrics, &mut Status),
    ) -> Result<Door> {
        let options = HttpOptions {
            max_connections: CONNECTIONS,
            max_connections_per_address: CONNECTIONS,
            ..HttpOptions::default()
        };
        let door = http::Listener::new(options);
        let (mut metrics, mut status) = (Metrics::of_process(), Status::new(Instant::now()));
        door.register(&mut metrics, &mut status);
        register(&mut metrics, &mut status);
        let site = Endpoint { metrics: Arc::new(metrics), status: Arc::new(status) };

        let runtime = Builder::new_current_thread().enable_all().build()?;
        let bind = || format!("cannot open the door for --metrics on {address}");
        let listener = runtime.block_on(TcpListener::bind(address)).with_context(bind)?;
        let address = listener.local_addr()?;
        let (drain, until) = watch::channel(false);
        let serve = move || runtime.block_on(door.serve(listener, site, engine, until));
        std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Door { address, _drain: drain })
    }

    /// Where it is.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}
