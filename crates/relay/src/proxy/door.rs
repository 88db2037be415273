//! Where clients come in.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use wirepath_net::Listen;

use super::connection::{Shared, attend};
use super::endpoint::{Endpoint, Place, Target};
use super::link::Link;
use crate::{advice, itself};

/// Connections that may wait to be taken.
const BACKLOG: i32 = 4096;

/// A listening socket.
#[derive(Debug)]
pub(super) struct Door {
    listener: Listener,
    name: String,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    /// And its name, which is removed with it.
    Unix(UnixListener, PathBuf),
}

impl Door {
    /// Listens on every address that the endpoint stands for.
    ///
    /// # Errors
    /// What the resolver or the system says.
    pub(super) async fn open(endpoint: &Endpoint) -> io::Result<Vec<Door>> {
        if let Place::Unix(path) = &endpoint.0 {
            return Ok(vec![Door::on_path(path)?]);
        }
        let door = |listener: TcpListener| {
            let name = format!("tcp://{}", listener.local_addr()?);
            Ok(Door { listener: Listener::Tcp(listener), name })
        };
        endpoint.listen_tcp().await?.into_iter().map(door).collect()
    }

    /// Where it listens really, if the port was to be one that is free.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its address, if it is one of TCP.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }

    /// Whether whoever connects there comes in here.
    pub(super) fn is_reached_at(&self, target: &Target) -> bool {
        match (&self.listener, target) {
            (Listener::Unix(_, path), Target::Unix(target)) => itself::is_same_socket(path, target),
            (_, target) => self.address().is_some_and(|address| target.is_one_of(&[address])),
        }
    }

    fn on_path(path: &Path) -> io::Result<Door> {
        let name = format!("unix:{}", path.display());
        let listener = UnixListener::bind(path).map_err(|error| advice::on_socket(path, error))?;
        Ok(Door { listener: Listener::Unix(listener, path.to_owned()), name })
    }

    /// Takes connections while `permits` last, until `drain` becomes true or its sender is dropped; comes back when the last connection
    /// has ended.
    pub(super) async fn serve(
        self,
        shared: Arc<Shared>,
        permits: Arc<Semaphore>,
        drain: watch::Receiver<bool>,
    ) {
        let name = self.name.clone();
        wirepath_net::serve(
            &name,
            Turnstile { door: self, permits, first: Mutex::default() },
            drain,
            |(link, permit)| {
                let shared = Arc::clone(&shared);
                Some(async move {
                    attend(link, &shared).await;
                    drop(permit);
                })
            },
        )
        .await;
    }

    async fn accept(&self) -> io::Result<Link> {
        match &self.listener {
            Listener::Tcp(listener) => {
                let broken = |error| io::Error::new(io::ErrorKind::ConnectionAborted, error);
                let (stream, peer) = listener.accept().await?;
                Link::tcp(stream, peer).map_err(broken)
            }
            Listener::Unix(listener, _) => Ok(Link::Unix(listener.accept().await?.0)),
        }
    }
}

/// A door that lets in as many as there are permits for: one who is too many waits here, and the others behind where the kernel keeps them.
struct Turnstile {
    door: Door,
    /// Those of all doors: a door at which nobody is must not hold one.
    permits: Arc<Semaphore>,
    /// Who waits here: not lost when the wait is given up.
    first: Mutex<Option<Link>>,
}

impl Listen for Turnstile {
    type Connection = (Link, OwnedSemaphorePermit);

    async fn accept(&self) -> io::Result<Self::Connection> {
        let mut first = self.first.lock().await;
        if first.is_none() {
            *first = Some(self.door.accept().await?);
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(io::Error::other)?;
        Ok((first.take().expect("one who waits was put there"), permit))
    }
}

impl Endpoint {
    /// Listens on every TCP address that it stands for; without a host, on one socket for all of IPv4 and IPv6. Must be called on a
    /// tokio runtime.
    ///
    /// # Errors
    /// What the resolver or the system says, or that it is a Unix socket.
    pub async fn listen_tcp(&self) -> io::Result<Vec<TcpListener>> {
        match &self.0 {
            Place::Tcp { host, port } if host.is_empty() => Ok(vec![on_any_address(*port)?]),
            Place::Tcp { .. } => self.resolve().await?.into_iter().map(on).collect(),
            Place::Unix(_) => Err(not_tcp()),
        }
    }
}

fn on(target: Target) -> io::Result<TcpListener> {
    match target {
        Target::Tcp(address) => on_address(address),
        Target::Unix(_) => Err(not_tcp()),
    }
}

fn not_tcp() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this is a Unix socket; HOST:PORT or :PORT is asked for")
}

fn on_any_address(port: u16) -> io::Result<TcpListener> {
    match on_address((Ipv6Addr::UNSPECIFIED, port).into()) {
        // A system without IPv6.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::AFNOSUPPORT) => {
            on_address((Ipv4Addr::UNSPECIFIED, port).into())
        }
        listener => listener,
    }
}

fn on_address(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into()).map_err(|error| advice::on_port(address.port(), error))?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self
            && let Err(error) = std::fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "the socket's name could not be removed");
        }
    }
}
