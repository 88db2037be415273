//! Listeners of the proxy.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use wirepath_net::Listen;

use super::connection::{Shared, run};
use super::peer::PeerSocket;
use crate::endpoint::{Endpoint, EndpointKind, Target};
use crate::{advice, loop_detection};

/// Listening socket and its name.
#[derive(Debug)]
pub(super) struct Listener {
    socket: ListenerSocket,
    name: String,
}

#[derive(Debug)]
enum ListenerSocket {
    Tcp(TcpListener),
    /// The socket and its path. The path is removed together with the socket.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on every address of the endpoint.
    pub(super) async fn open(endpoint: &Endpoint) -> io::Result<Vec<Listener>> {
        if let EndpointKind::Unix(path) = &endpoint.0 {
            return Ok(vec![Listener::on_path(path)?]);
        }
        let named = |socket: TcpListener| {
            let name = format!("tcp://{}", socket.local_addr()?);
            Ok(Listener { socket: ListenerSocket::Tcp(socket), name })
        };
        endpoint.listen_tcp().await?.into_iter().map(named).collect()
    }

    /// Address of the listener, with the port that the system chose.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Address of a TCP listener; None for a Unix socket.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            ListenerSocket::Tcp(socket) => socket.local_addr().ok(),
            ListenerSocket::Unix(..) => None,
        }
    }

    /// Returns whether a connection to the target reaches this listener.
    pub(super) fn is_reached_at(&self, target: &Target) -> bool {
        match (&self.socket, target) {
            (ListenerSocket::Unix(_, path), Target::Unix(target)) => {
                loop_detection::is_same_socket(path, target)
            }
            (_, target) => self.address().is_some_and(|address| target.is_one_of(&[address])),
        }
    }

    fn on_path(path: &Path) -> io::Result<Listener> {
        let name = format!("unix:{}", path.display());
        let socket = UnixListener::bind(path).map_err(|error| advice::on_socket(path, error))?;
        Ok(Listener { socket: ListenerSocket::Unix(socket, path.to_owned()), name })
    }

    /// Accepts connections while `permits` are available, until `drain` becomes true or its sender is
    /// dropped. Returns when the last connection has ended.
    pub(super) async fn serve(
        self,
        shared: Arc<Shared>,
        permits: Arc<Semaphore>,
        drain: watch::Receiver<bool>,
    ) {
        let name = self.name.clone();
        wirepath_net::serve(
            &name,
            LimitedListener { listener: self, permits, accepted: Mutex::default() },
            drain,
            None,
            |(client, permit)| {
                let shared = Arc::clone(&shared);
                Some(async move {
                    run(client, &shared).await;
                    drop(permit);
                })
            },
        )
        .await;
    }

    async fn accept(&self) -> io::Result<PeerSocket> {
        match &self.socket {
            ListenerSocket::Tcp(socket) => {
                let aborted = |error| io::Error::new(io::ErrorKind::ConnectionAborted, error);
                let (stream, peer) = socket.accept().await?;
                PeerSocket::tcp(stream, peer).map_err(aborted)
            }
            ListenerSocket::Unix(socket, _) => Ok(PeerSocket::Unix(socket.accept().await?.0)),
        }
    }
}

/// Listener with a connection limit. One connection beyond the limit waits here, the others in the backlog of
/// the kernel.
struct LimitedListener {
    listener: Listener,
    /// Permits shared by all listeners. An idle listener must not hold a permit.
    permits: Arc<Semaphore>,
    /// Accepted connection that waits for a permit. It is kept when the wait is cancelled.
    accepted: Mutex<Option<PeerSocket>>,
}

impl Listen for LimitedListener {
    type Connection = (PeerSocket, OwnedSemaphorePermit);

    async fn accept(&self) -> io::Result<Self::Connection> {
        let mut accepted = self.accepted.lock().await;
        if accepted.is_none() {
            *accepted = Some(self.listener.accept().await?);
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(io::Error::other)?;
        Ok((accepted.take().expect("it was accepted above"), permit))
    }
}

impl Drop for ListenerSocket {
    fn drop(&mut self) {
        if let ListenerSocket::Unix(_, path) = self
            && let Err(error) = std::fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove the path of the Unix socket");
        }
    }
}
