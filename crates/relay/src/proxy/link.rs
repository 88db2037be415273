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
    /// And whom it is with: one that was reset does not know that any more (`getpeername`).
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// What the system says.
    pub(super) async fn connect(target: &Target) -> io::Result<Link> {
        match target {
            Target::Tcp(address) => Link::tcp(TcpStream::connect(address).await?, *address),
            Target::Unix(path) => Ok(Link::Unix(to_unix(path).await?)),
        }
    }

    /// A connection with `peer` that has come about. It is reset when it is closed, until
    /// [`Ends::close_in_order`](super::ends::Ends::close_in_order).
    ///
    /// # Errors
    /// What `setsockopt` says.
    pub(super) fn tcp(stream: TcpStream, peer: SocketAddr) -> io::Result<Link> {
        // Whoever sent it has waited already, if that was wanted.
        peer::set_up(&stream)?;
        // Whatever goes wrong from here on, and wherever, the other side must not take it for an end in order.
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(Link::Tcp(stream, peer))
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self, Link::Tcp(..))
    }

    /// From whom to whom it is; nothing for a Unix socket. IPv4 is shown as such where the socket is one of IPv6.
    ///
    /// # Errors
    /// What `getsockname` says.
    pub(super) fn origin(&self) -> io::Result<Option<Origin>> {
        let Link::Tcp(stream, peer) = self else { return Ok(None) };
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Ok(Some(Origin { source: plain(*peer), destination: plain(stream.local_addr()?) }))
    }

    /// Waits until it is reset; of a Unix socket, which knows no reset, without end.
    pub(super) async fn broken(&self) {
        match self {
            Link::Tcp(stream, _) => wirepath_net::http::broken(stream).await,
            Link::Unix(_) => std::future::pending().await,
        }
    }

    /// Waits for some bytes and puts them behind those in `bytes`; 0 at the end.
    ///
    /// # Errors
    /// What the system says.
    pub(super) async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Link::Tcp(stream, _) => stream.read_buf(bytes).await,
            Link::Unix(stream) => stream.read_buf(bytes).await,
        }
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// What the system says.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Link::Tcp(stream, _) => stream.write_all(bytes).await,
            Link::Unix(stream) => stream.write_all(bytes).await,
        }
    }

    /// The connection itself, in non-blocking mode, of which this runtime hears nothing any more.
    ///
    /// # Errors
    /// What `epoll_ctl` says.
    pub(super) fn into_socket(self) -> io::Result<OwnedFd> {
        match self {
            Link::Tcp(stream, _) => Ok(stream.into_std()?.into()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Promise: A client that resets while a backend is waited for is dropped at once.
    #[test]
    fn who_was_reset_is_known_and_who_only_finished_is_there() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let expected =
                Origin { source: far.local_addr().unwrap(), destination: listener.local_addr().unwrap() };
            let (near, peer) = listener.accept().await.unwrap();
            let mut link = Link::tcp(near, peer).unwrap();
            far.shutdown().await.unwrap();
            assert_eq!(link.read(&mut Vec::new()).await.unwrap(), 0);
            tokio::select! {
                biased;
                () = link.broken() => panic!("it is not reset"),
                () = std::future::ready(()) => {}
            }
            sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
            drop(far);
            link.broken().await;
            assert_eq!(link.origin().unwrap(), Some(expected));
        });
    }
}
