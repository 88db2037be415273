//! Socket of a peer while the control plane owns it, to transfer headers. Relayed bytes never use it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

use super::proxy_protocol::Origin;
use crate::endpoint::Target;
use crate::keepalive;

/// Interval of retries to connect to a Unix socket whose backlog is full.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// TCP or Unix connection with a client or backend.
#[derive(Debug)]
pub(super) enum PeerSocket {
    /// The connection and its peer address, which `getpeername` does not return after a reset.
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl PeerSocket {
    pub(super) async fn connect(target: &Target) -> io::Result<PeerSocket> {
        match target {
            Target::Tcp(address) => PeerSocket::tcp(TcpStream::connect(address).await?, *address),
            Target::Unix(path) => Ok(PeerSocket::Unix(connect_unix(path).await?)),
        }
    }

    /// Takes an established connection. Closing it sends a reset, until
    /// [`SocketPair::close_gracefully`](super::shutdown::SocketPair::close_gracefully) is called.
    pub(super) fn tcp(stream: TcpStream, peer: SocketAddr) -> io::Result<PeerSocket> {
        keepalive::set_up(&stream)?;
        // After any failure from here on, the peer must not see a graceful end.
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(PeerSocket::Tcp(stream, peer))
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self, PeerSocket::Tcp(..))
    }

    /// Source and destination of the connection; None for a Unix socket. IPv4 over an IPv6 socket is shown as
    /// IPv4.
    pub(super) fn origin(&self) -> io::Result<Option<Origin>> {
        let PeerSocket::Tcp(stream, peer) = self else { return Ok(None) };
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Ok(Some(Origin { source: plain(*peer), destination: plain(stream.local_addr()?) }))
    }

    /// Waits for a reset. Never completes for a Unix socket, which has no reset.
    pub(super) async fn reset(&self) {
        match self {
            PeerSocket::Tcp(stream, _) => wirepath_net::http::wait_for_reset(stream).await,
            PeerSocket::Unix(_) => std::future::pending().await,
        }
    }

    /// Reads some bytes and appends them to `bytes`. Returns 0 at the end of the stream.
    pub(super) async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            PeerSocket::Tcp(stream, _) => stream.read_buf(bytes).await,
            PeerSocket::Unix(stream) => stream.read_buf(bytes).await,
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            PeerSocket::Tcp(stream, _) => stream.write_all(bytes).await,
            PeerSocket::Unix(stream) => stream.write_all(bytes).await,
        }
    }

    /// Takes the non-blocking socket out of the runtime.
    pub(super) fn into_socket(self) -> io::Result<OwnedFd> {
        match self {
            PeerSocket::Tcp(stream, _) => Ok(stream.into_std()?.into()),
            PeerSocket::Unix(stream) => Ok(stream.into_std()?.into()),
        }
    }
}

/// Connects to a Unix socket. If the backlog is full, a non-blocking socket gets `EAGAIN` (connect(2)) and no
/// event once there is room, so this retries until the caller times out.
async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(RETRY_INTERVAL).await,
            connected => return connected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Promise: If a client resets while the proxy waits for a backend, the proxy drops it at once.
    #[test]
    fn a_reset_is_told_from_a_half_close() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let expected =
                Origin { source: far.local_addr().unwrap(), destination: listener.local_addr().unwrap() };
            let (near, address) = listener.accept().await.unwrap();
            let mut peer = PeerSocket::tcp(near, address).unwrap();
            far.shutdown().await.unwrap();
            assert_eq!(peer.read(&mut Vec::new()).await.unwrap(), 0);
            tokio::select! {
                biased;
                () = peer.reset() => panic!("it is not reset"),
                () = std::future::ready(()) => {}
            }
            sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
            drop(far);
            peer.reset().await;
            assert_eq!(peer.origin().unwrap(), Some(expected));
        });
    }
}
