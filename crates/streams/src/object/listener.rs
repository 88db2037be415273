//! A listening socket, until it has accepted a connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags, SocketType, accept_with, getsockname, sockopt};

use super::{Connection, Kind, Object, ObjectError};

/// A listening socket. Dropping it may block, because it removes the socket's name from the file system.
pub(crate) struct Listener {
    socket: OwnedFd,
    /// The listening event was sent.
    pub(crate) is_told: bool,
    /// The failure event was sent.
    pub(crate) is_failure_told: bool,
    /// Removes the name when dropped.
    _name: Option<Name>,
}

/// Name of a Unix socket; removed from the file system when dropped.
struct Name(PathBuf);

impl Drop for Name {
    fn drop(&mut self) {
        // If removing fails, the next `bind` reports it.
        drop(std::fs::remove_file(&self.0));
    }
}

impl Object {
    /// A listening TCP or Unix stream socket. The object waits for a connection, without a thread, and then
    /// becomes that connection, to read from or to write to: the first connection, even if it is reset before
    /// anything was read. The listening socket is then closed: other connections in its queue are reset, and
    /// later ones refused. The `path` of a Unix socket is removed at that time, or when the object is
    /// dropped. A peer that completes a TCP connection at the very moment at which the socket is closed may
    /// not be reset: Linux forgets the connection (up to 7.2, `tcp_v4_syn_recv_sock`), and the peer notices
    /// it when it sends or probes (`SO_KEEPALIVE`).
    ///
    /// A stream begins when all listening objects that it was built with are connected. An object that is
    /// attached later delays nothing: it takes part from its connection on, an input in the order and an
    /// output in the pattern, and an output gets no earlier bytes. But a stream does not end while such an
    /// input waits. If descriptors or memory are missing, a connection stays in the socket's queue, and
    /// accepting is retried every second.
    ///
    /// # Errors
    /// `EINVAL` if the socket does not listen or is not a stream socket; else failures of `getsockopt` or
    /// `fcntl`.
    pub fn listening(name: &str, socket: OwnedFd, path: Option<PathBuf>) -> io::Result<Object> {
        let is_of_streams = sockopt::socket_type(&socket)? == SocketType::STREAM;
        if !(is_of_streams && sockopt::socket_acceptconn(&socket)?) {
            return Err(Errno::INVAL.into());
        }
        fcntl_setfl(&socket, fcntl_getfl(&socket)? | OFlags::NONBLOCK)?;
        let listener = Listener { socket, is_told: false, is_failure_told: false, _name: path.map(Name) };
        Ok(Object::new(name, Kind::Listening(listener)))
    }

    pub(crate) fn is_listening(&self) -> bool {
        matches!(self.kind, Kind::Listening(_))
    }

    /// Resets the flags of sent events, so that the next stream sends the events again.
    pub(crate) fn forget_told(&mut self) {
        if let Kind::Listening(listener) = &mut self.kind {
            (listener.is_told, listener.is_failure_told) = (false, false);
        }
    }

    /// Turns the object into the accepted connection; returns the listener, or None if no connection has
    /// come. An error is not specific to one connection: descriptors may be missing.
    pub(crate) fn accept(&mut self) -> Result<Option<Listener>, ObjectError> {
        let Kind::Listening(listener) = &self.kind else { return Ok(None) };
        let accepted = listener.accept().map_err(|errno| self.error("accept4", errno))?;
        let Some(descriptor) = accepted else { return Ok(None) };
        let connection =
            Connection::of_socket(descriptor).map_err(|errno| self.error("setsockopt", errno))?;
        match std::mem::replace(&mut self.kind, Kind::Stream(connection)) {
            Kind::Listening(listener) => Ok(Some(listener)),
            _ => Ok(None),
        }
    }
}

impl Listener {
    fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        loop {
            match accept_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(connection) => return Ok(Some(connection)),
                Err(Errno::AGAIN) => return Ok(None),
                // Errors of the accepted connection (accept(2)): that connection is gone.
                Err(
                    Errno::INTR
                    | Errno::CONNABORTED
                    | Errno::PROTO
                    | Errno::NETDOWN
                    | Errno::NETUNREACH
                    | Errno::HOSTDOWN
                    | Errno::HOSTUNREACH
                    | Errno::NONET,
                ) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Address to connect to, as text.
    pub(crate) fn address(&self) -> String {
        let Ok(address) = getsockname(&self.socket) else { return "an address that is not known".to_owned() };
        if let Ok(internet) = std::net::SocketAddr::try_from(address.clone()) {
            return internet.to_string();
        }
        let unix = SocketAddrUnix::try_from(address).ok();
        let path = unix.as_ref().and_then(SocketAddrUnix::path_bytes).map(String::from_utf8_lossy);
        path.map_or_else(|| "a socket without a path".to_owned(), |path| path.into_owned())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
