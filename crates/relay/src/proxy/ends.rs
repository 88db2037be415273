//! The two connections that are relayed to each other, and how the end of one is passed on to the other.
//!
//! An end in order (FIN) goes on when all that came before it has left, each direction by itself. Everything else is an abort and goes on
//! as such (RST), at once and in both directions: whoever reads until the end must not take what was cut for whole.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown, sockopt};
use wirepath_streams::datapath::socket::unacknowledged;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToBackend,
    ToClient,
}

/// How one direction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In order, and that was passed on.
    Finished,
    /// Not in order: both connections are to be closed as they are.
    Aborted,
}

/// Both connections, under descriptors of their own.
#[derive(Debug)]
pub(super) struct Ends {
    client: Side,
    backend: Side,
}

#[derive(Debug)]
struct Side {
    socket: OwnedFd,
    is_tcp: bool,
    /// It was told that nothing more comes, all before having left for it.
    finished: AtomicBool,
}

impl Ends {
    /// Of these connections; the flags say whether each is one of TCP.
    ///
    /// # Errors
    /// If no more descriptors can be had.
    pub(super) fn new(
        (client, client_is_tcp): (BorrowedFd<'_>, bool),
        (backend, backend_is_tcp): (BorrowedFd<'_>, bool),
    ) -> io::Result<Ends> {
        Ok(Ends { client: Side::new(client, client_is_tcp)?, backend: Side::new(backend, backend_is_tcp)? })
    }

    /// Passes on that a direction has ended, in order if `in_order`. Does not block: an engine thread does this.
    pub(super) fn end(&self, direction: Direction, in_order: bool) -> End {
        let (from, to) = match direction {
            Direction::ToBackend => (&self.client, &self.backend),
            Direction::ToClient => (&self.backend, &self.client),
        };
        if !in_order || from.was_reset() {
            return End::Aborted;
        }
        // First: the other direction may end because of what follows, and asks.
        to.finished.store(true, SeqCst);
        match shutdown(&to.socket, Shutdown::Write) {
            Ok(()) => End::Finished,
            Err(_) => End::Aborted, // it is gone
        }
    }

    /// Bytes that were sent to the client and to the backend and have not come there. If nobody can say, none: then they are no sign of life.
    pub(super) fn on_their_way(&self) -> (u32, u32) {
        (self.client.on_their_way(), self.backend.on_their_way())
    }

    /// Both directions have finished: the connections, which would be [reset](super::link::Link::tcp), are closed when what they still
    /// have to send has left.
    pub(super) fn close_in_order(&self) {
        self.client.close_in_order();
        self.backend.close_in_order();
    }
}

impl Side {
    fn new(socket: BorrowedFd<'_>, is_tcp: bool) -> io::Result<Side> {
        Ok(Side { socket: socket.try_clone_to_owned()?, is_tcp, finished: AtomicBool::new(false) })
    }

    /// Whether what looks like an end in order was a reset. The kernel tells of a reset once: if the other direction wrote when it came,
    /// that was told, and who reads finds an end. A TCP connection that nobody has finished from here is closed both ways only then.
    fn was_reset(&self) -> bool {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        let is_closed = poll(&mut polled, Some(&NOW)).is_ok()
            && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        self.is_tcp && is_closed && !self.finished.load(SeqCst)
    }

    fn on_their_way(&self) -> u32 {
        unacknowledged(self.socket.as_fd()).unwrap_or(0)
    }

    fn close_in_order(&self) {
        if self.is_tcp
            && let Err(errno) = sockopt::set_socket_linger(&self.socket, None)
        {
            tracing::error!(%errno, "a connection cannot be closed in order; it is reset");
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

    fn ends(client: &TcpStream, backend: &TcpStream) -> Ends {
        Ends::new((client.as_fd(), true), (backend.as_fd(), true)).unwrap()
    }

    fn reset_when_closed(connection: &TcpStream) {
        sockopt::set_socket_linger(connection, Some(Duration::ZERO)).unwrap();
    }

    #[test]
    fn an_end_in_order_is_passed_on_each_way() {
        let ((client, mut user), (backend, mut server)) = (connection(), connection());
        let ends = ends(&client, &backend);
        user.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(ends.end(Direction::ToBackend, true), End::Finished);
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        server.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!((&backend).read(&mut [0]).unwrap(), 0);
        assert_eq!(ends.end(Direction::ToClient, true), End::Finished);
        assert_eq!(user.read(&mut [0]).unwrap(), 0);
    }

    /// Promise: An orderly end is passed on only if it was one, also after a reset that another stream saw.
    #[test]
    fn a_reset_that_the_other_direction_was_told_of_is_no_end_in_order() {
        let ((client, user), (backend, _server)) = (connection(), connection());
        let ends = ends(&client, &backend);
        reset_when_closed(&user);
        drop(user);
        // Until it has come, writing succeeds; then it is told, once.
        while (&client).write(b"x").is_ok() {}
        assert_eq!((&client).read(&mut [0]).unwrap(), 0, "it looks like an end");
        assert_eq!(ends.end(Direction::ToBackend, true), End::Aborted);
    }

    /// Promise: An orderly end is passed on only if it was one, also after a reset that another stream saw.
    #[test]
    fn only_what_ended_in_order_is_not_reset() {
        let close = |in_order: bool| {
            let ((client, user), (backend, server)) = (connection(), connection());
            [&client, &backend].into_iter().for_each(reset_when_closed);
            let ends = ends(&client, &backend);
            if in_order {
                ends.close_in_order();
            }
            drop((ends, client, backend));
            [user, server].map(|mut far| far.read(&mut [0]).map_err(|error| error.kind()))
        };
        assert_eq!(close(true), [Ok(0), Ok(0)]);
        assert_eq!(close(false), [Err(io::ErrorKind::ConnectionReset); 2]);
    }
}
