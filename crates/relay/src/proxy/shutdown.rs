//! Shutdown of a relayed pair of connections.
//!
//! A graceful end (FIN) is passed on after all bytes before it have been sent, separately for each direction.
//! Any other end is an abort, and is passed on as a reset (RST), at once and in both directions: a reader
//! must not take truncated data for complete data.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown, sockopt};
use wirepath_datapath::socket::unacknowledged;

/// Direction of relayed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToBackend,
    ToClient,
}

/// End of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectionEnd {
    /// The end was graceful and was passed on.
    Finished,
    /// The end was not graceful: both connections must be reset.
    Aborted,
}

/// Client and backend connection, each with a descriptor of its own.
#[derive(Debug)]
pub(super) struct SocketPair {
    client: Side,
    backend: Side,
}

#[derive(Debug)]
struct Side {
    socket: OwnedFd,
    is_tcp: bool,
    /// True if the sending side is shut down.
    finished: AtomicBool,
}

impl SocketPair {
    /// Takes both connections, and whether each of them is a TCP connection.
    pub(super) fn new(
        (client, client_is_tcp): (BorrowedFd<'_>, bool),
        (backend, backend_is_tcp): (BorrowedFd<'_>, bool),
    ) -> io::Result<SocketPair> {
        Ok(SocketPair {
            client: Side::new(client, client_is_tcp)?,
            backend: Side::new(backend, backend_is_tcp)?,
        })
    }

    /// Passes on the end of a direction. Must not block, since an engine thread calls it.
    pub(super) fn end(&self, direction: Direction, is_graceful: bool) -> DirectionEnd {
        let (from, to) = match direction {
            Direction::ToBackend => (&self.client, &self.backend),
            Direction::ToClient => (&self.backend, &self.client),
        };
        if !is_graceful || from.was_reset() {
            return DirectionEnd::Aborted;
        }
        // Set before the shutdown: the other direction may end because of the shutdown, and reads this flag.
        to.finished.store(true, SeqCst);
        match shutdown(&to.socket, Shutdown::Write) {
            Ok(()) => DirectionEnd::Finished,
            Err(_) => DirectionEnd::Aborted, // the connection is already gone
        }
    }

    /// Bytes sent to the client and to the backend that are not yet acknowledged; 0 where unknown.
    pub(super) fn unacknowledged(&self) -> (u32, u32) {
        (self.client.unacknowledged(), self.backend.unacknowledged())
    }

    /// Lets the connections send their remaining bytes after close. Otherwise, closing
    /// [resets](super::peer::PeerSocket::tcp) them.
    pub(super) fn close_gracefully(&self) {
        self.client.close_gracefully();
        self.backend.close_gracefully();
    }
}

impl Side {
    fn new(socket: BorrowedFd<'_>, is_tcp: bool) -> io::Result<Side> {
        Ok(Side { socket: socket.try_clone_to_owned()?, is_tcp, finished: AtomicBool::new(false) })
    }

    /// Returns whether an apparently graceful end was a reset. The kernel reports a reset once: after a write
    /// got the error, a read sees the end of the stream. A TCP connection that is not shut down locally is
    /// closed in both directions only after a reset.
    fn was_reset(&self) -> bool {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        let is_closed = poll(&mut polled, Some(&NOW)).is_ok()
            && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        self.is_tcp && is_closed && !self.finished.load(SeqCst)
    }

    fn unacknowledged(&self) -> u32 {
        unacknowledged(self.socket.as_fd()).unwrap_or(0)
    }

    fn close_gracefully(&self) {
        if self.is_tcp
            && let Err(errno) = sockopt::set_socket_linger(&self.socket, None)
        {
            tracing::error!(%errno, "cannot close a connection gracefully; it is reset");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, far)
    }

    fn pair(client: &TcpStream, backend: &TcpStream) -> SocketPair {
        SocketPair::new((client.as_fd(), true), (backend.as_fd(), true)).unwrap()
    }

    fn reset_when_closed(connection: &TcpStream) {
        sockopt::set_socket_linger(connection, Some(Duration::ZERO)).unwrap();
    }

    #[test]
    fn a_graceful_end_is_passed_on_each_way() {
        let ((client, mut user), (backend, mut server)) = (connection(), connection());
        let pair = pair(&client, &backend);
        user.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(pair.end(Direction::ToBackend, true), DirectionEnd::Finished);
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        server.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!((&backend).read(&mut [0]).unwrap(), 0);
        assert_eq!(pair.end(Direction::ToClient, true), DirectionEnd::Finished);
        assert_eq!(user.read(&mut [0]).unwrap(), 0);
    }

    /// Promise: The proxy passes on an orderly end only if no read or write of the connection met a reset.
    #[test]
    fn a_reset_that_a_write_has_seen_is_not_graceful() {
        let ((client, user), (backend, _server)) = (connection(), connection());
        let pair = pair(&client, &backend);
        reset_when_closed(&user);
        drop(user);
        // Writes succeed until the reset arrives; the next write fails.
        while (&client).write(b"x").is_ok() {}
        assert_eq!((&client).read(&mut [0]).unwrap(), 0, "it looks like a graceful end");
        assert_eq!(pair.end(Direction::ToBackend, true), DirectionEnd::Aborted);
    }

    /// Promise: The proxy passes on an orderly end only if no read or write of the connection met a reset.
    #[test]
    fn only_a_graceful_end_avoids_a_reset() {
        let close = |is_graceful: bool| {
            let ((client, user), (backend, server)) = (connection(), connection());
            [&client, &backend].into_iter().for_each(reset_when_closed);
            let pair = pair(&client, &backend);
            if is_graceful {
                pair.close_gracefully();
            }
            drop((pair, client, backend));
            [user, server].map(|mut far| far.read(&mut [0]).map_err(|error| error.kind()))
        };
        assert_eq!(close(true), [Ok(0), Ok(0)]);
        assert_eq!(close(false), [Err(io::ErrorKind::ConnectionReset); 2]);
    }
}
