//! Options of HTTP servers, and the parts that they start.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Instant;

use clap::Args;
use tokio::net::TcpListener;
use wirepath_engine::{Engine, EngineOptions};

use crate::descriptors::{DescriptorBudget, raise_descriptor_limit};
use crate::http::{AccessLog, Endpoint, HttpOptions, Listener};
use crate::metrics::Metrics;
use crate::program::end_after_panic;
use crate::runtime_threads::RuntimeThreads;
use crate::status::Status;
use crate::{any_address, bind};

/// Maximum number of threads: more than there are cores only wait for each other.
const MAX_THREADS: usize = 1024;

/// Options of a server over HTTP: the flags of a program, which sets the default of `http`.
#[derive(Args, Clone, Debug)]
pub struct ServiceOptions {
    /// HTTP listen address; :PORT for every address
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    pub http: SocketAddr,

    /// Engine threads, and as many HTTP threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<NonZeroUsize>,

    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub max_connections: usize,

    /// Maximum number of connections from one client address (of IPv6: from one /64 network)
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub max_connections_per_address: usize,

    /// Log each HTTP request: method, path, status, bytes, time and agent [default: no access log]
    #[arg(long, value_name = "FORM")]
    pub access_log: Option<AccessLog>,
}

/// Running parts of a server over HTTP.
pub struct Service {
    /// Number of engine threads.
    pub threads: usize,
    /// Engine that sends bodies.
    pub engine: Arc<Engine>,
    /// Budget of descriptors, shared with the listener.
    pub descriptors: Arc<DescriptorBudget>,
    /// HTTP listener.
    pub listener: Listener,
    /// Listening socket.
    pub socket: TcpListener,
    /// Metrics and status.
    pub endpoint: Endpoint,
}

impl ServiceOptions {
    /// Starts the threads and listens. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// Listening on the address failed, or threads cannot be started.
    pub fn start(&self) -> io::Result<Service> {
        let threads = match self.threads {
            Some(threads) => threads.get(),
            None => available_parallelism()
                .map_err(|error| {
                    let why = format!("cannot find the number of cores: {error}; use --threads");
                    io::Error::new(error.kind(), why)
                })?
                .get(),
        };
        let on_panic = Some(end_after_panic as fn(&str));
        let engine = EngineOptions { threads, on_panic, ..EngineOptions::default() };
        let engine = Arc::new(Engine::start(engine)?);
        let descriptors = DescriptorBudget::new(raise_descriptor_limit(), false);
        let options = HttpOptions {
            max_connections: self.max_connections,
            max_connections_per_address: self.max_connections_per_address,
            access_log: self.access_log,
            ..HttpOptions::default()
        };
        let listener = Listener::new(options)
            .within(Arc::clone(&descriptors))
            .on(RuntimeThreads::start("http", threads)?);
        let (mut metrics, mut status) = (Metrics::default(), Status::new(Instant::now()));
        listener.register(&mut metrics, &mut status);
        let socket = bind_option("--http", self.http)?;
        Ok(Service {
            threads,
            engine,
            descriptors,
            listener,
            socket,
            endpoint: Endpoint::new(metrics, status),
        })
    }
}

/// Listens on the address of an option. Must be called on a tokio runtime.
///
/// # Errors
/// Listening on the address failed; the message has the name of the option.
pub fn bind_option(option: &str, address: SocketAddr) -> io::Result<TcpListener> {
    bind(address).map_err(|error| {
        let why = format!("cannot listen on {address}: {error}; choose another with {option} ADDRESS:PORT");
        io::Error::new(error.kind(), why)
    })
}

/// Listen address as written: host names are not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Address and port.
    Address(SocketAddr),
    /// Host name and port.
    Name(String, u16),
}

impl ListenAddress {
    /// Returns the address; a name is resolved, which reads system files and may use the network.
    ///
    /// # Errors
    /// The name cannot be resolved.
    pub fn resolve(&self) -> Result<SocketAddr, String> {
        let (host, port) = match self {
            ListenAddress::Address(address) => return Ok(*address),
            ListenAddress::Name(host, port) => (host.as_str(), *port),
        };
        let resolved = (host, port).to_socket_addrs();
        let resolved = resolved.map_err(|error| format!("cannot resolve {host}: {error}"))?;
        // The order of resolved addresses varies; most clients of a local server try IPv4.
        let mut addresses: Vec<SocketAddr> = resolved.collect();
        addresses.sort_by_key(SocketAddr::is_ipv6);
        addresses.first().copied().ok_or_else(|| format!("cannot resolve {host}: no address"))
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    /// Parses `HOST:PORT` with a name or an address, or `:PORT` for all addresses of the machine.
    fn from_str(text: &str) -> Result<ListenAddress, String> {
        const EXPECTED: &str = "expected ADDRESS:PORT, such as 127.0.0.1:8554, localhost:8554 or :8554";
        let Some((host, port)) = text.rsplit_once(':') else { return Err(EXPECTED.to_owned()) };
        let port: u16 = port.parse().map_err(|_| EXPECTED.to_owned())?;
        match (host, text.parse::<SocketAddr>()) {
            ("", _) => Ok(ListenAddress::Address((any_address(), port).into())),
            (_, Ok(address)) => Ok(ListenAddress::Address(address)),
            (host, _) if host.contains(':') => {
                Err("an IPv6 address needs brackets: expected [ADDRESS]:PORT".to_owned())
            }
            (host, _) => Ok(ListenAddress::Name(host.to_owned(), port)),
        }
    }
}

/// Parses and resolves a listen address.
///
/// # Errors
/// Expected form, or a name that cannot be resolved.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse::<ListenAddress>()?.resolve()
}

/// Parses a number of threads.
///
/// # Errors
/// Expected range.
pub fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text.parse().ok().filter(|threads: &NonZeroUsize| threads.get() <= MAX_THREADS);
    threads.ok_or_else(|| format!("expected a whole number from 1 to {MAX_THREADS}"))
}
