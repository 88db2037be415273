//! A connection while the control plane has it: to say or hear a few bytes, never to move any.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

use super::endpoint::Target;
use super::proxy_protocol::Origin;
use crate::peer;

/// When a place in the queue of a Unix socket is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// A TCP or Unix connection.
#[derive(Debug)]
pub(super) enum Link {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// What the system says.
    pub(super) async fn connect(target: &Target) -> io::Result<Link> {
        match target {
            Target::Tcp(address) => Link::tcp(TcpStream::connect(address).await?),
            Target::Unix(path) => Ok(Link::Unix(to_unix(path).await?)),
        }
    }

    /// A connection that has come about. It is reset when it is closed, until [`Ends::close_in_order`](super::ends::Ends::close_in_order).
    ///
    /// # Errors
    /// What `setsockopt` says.
    pub(super) fn tcp(stream: TcpStream) -> io::Result<Link> {
        // Whoever sent it has waited already, if that was wanted.
        peer::set_up(&stream)?;
        // Whatever goes wrong from here on, and wherever, the other side must not take it for an end in order.
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(Link::Tcp(stream))
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self, Link::Tcp(_))
    }

    /// From whom to whom it is; nothing for a Unix socket. IPv4 is shown as such where the socket is one of IPv6.
    pub(super) fn origin(&self) -> Option<Origin> {
        let Link::Tcp(stream) = self else { return None };
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (source, destination) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
        Some(Origin { source: plain(source), destination: plain(destination) })
    }

    /// Waits for some bytes and puts them behind those in `bytes`; 0 at the end.
    ///
    /// # Errors
    /// What the system says.
    pub(super) async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Link::Tcp(stream) => stream.read_buf(bytes).await,
            Link::Unix(stream) => stream.read_buf(bytes).await,
        }
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// What the system says.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Link::Tcp(stream) => stream.write_all(bytes).await,
            Link::Unix(stream) => stream.write_all(bytes).await,
        }
    }

    /// The connection itself, in non-blocking mode, of which this runtime hears nothing any more.
    ///
    /// # Errors
    /// What `epoll_ctl` says.
    pub(super) fn into_socket(self) -> io::Result<OwnedFd> {
        match self {
            Link::Tcp(stream) => Ok(stream.into_std()?.into()),
            Link::Unix(stream) => Ok(stream.into_std()?.into()),
        }
    }
}

/// Connects to a Unix socket. Where its queue is full, Linux has nobody wait who does not block (`EAGAIN`, connect(2)), and tells nobody
/// when there is room: whoever asked asks again, for as long as its caller has patience.
async fn to_unix(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(ASK_AGAIN).await,
            connected => return connected,
        }
    }
}
