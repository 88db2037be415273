//! Errors at the start of a server. Most come from listening, which is here, too.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use wirepath_net::auth::AuthError;
use wirepath_net::bind;
use wirepath_net::handed_sockets::HandedSockets;
use wirepath_net::tls::TlsError;

use crate::images::FolderError;
use crate::session_limit::TooManySessions;

/// A server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Files or channels cannot be served: a [`CatalogError`](crate::CatalogError), whose module uses this
    /// one.
    #[error("{0}")]
    Catalog(Box<dyn std::error::Error + Send + Sync>),
    /// Authentication cannot begin.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// TLS cannot begin.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The cache folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Listening failed for a protocol.
    #[error("cannot listen for {0} on {1}: {2}")]
    Listen(&'static str, SocketAddr, io::Error),
    /// The interface of the multicast groups cannot be used.
    #[error("cannot send to the groups of --multicast: {0}; `ip link` lists the interfaces of this machine")]
    Multicast(io::Error),
    /// Open files do not allow as many sessions.
    #[error(transparent)]
    Sessions(#[from] TooManySessions),
    /// Too few threads or descriptors.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// Listens for a protocol, on the socket that was passed in for it or on a new one.
pub(crate) fn listen(
    protocol: &'static str,
    address: SocketAddr,
    handed: &mut HandedSockets,
) -> Result<TcpListener, StartError> {
    let listening = match handed.take(protocol) {
        Some(socket) => TcpListener::from_std(socket.into()),
        None => bind(address),
    };
    listening.map_err(|source| StartError::Listen(protocol, address, source))
}
