//! A socket that listens, until somebody has connected.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags, SocketType, accept_with, getsockname, sockopt};

use super::{Connection, Kind, Object, ObjectError};

/// Where a connection is waited for. To drop it may take its time: a name in a file system goes with it.
pub(crate) struct Listener {
    socket: OwnedFd,
    /// Where it is waited for was told.
    pub(crate) is_told: bool,
    /// That nobody could be taken in was told.
    pub(crate) is_failure_told: bool,
    /// Only to be dropped.
    _name: Option<Name>,
}

/// The name of a Unix socket, which is removed with this.
struct Name(PathBuf);

impl Drop for Name {
    fn drop(&mut self) {
        // If it cannot be removed, whoever listens there next will say so.
        drop(std::fs::remove_file(&self.0));
    }
}

impl Object {
    /// A TCP or Unix socket of streams that listens. It waits for a connection, without a thread, and then is
    /// that connection, to read from or to write to. The first that comes is it, also if it is reset before
    /// anything was read. The socket is closed then: others that wait in its queue are reset, and those that
    /// come later find nobody listening. Of a Unix socket that has a name, the `path` is removed then, or
    /// when the object is dropped. Who completes a TCP connection at the very moment at which the socket is
    /// closed may not be reset: Linux forgets it without a word (up to 7.2, `tcp_v4_syn_recv_sock`), and it
    /// finds out when it sends or asks (`SO_KEEPALIVE`).
    ///
    /// A stream begins when everybody has come that it was built to wait for. One that is attached later
    /// keeps nobody waiting: it takes part from when somebody has come, an input in the order and an output
    /// in the pattern, which gets nothing of before. But a stream does not end while such an input waits.
    /// Where there is no descriptor or memory for a connection that has come, it stays in the socket's queue,
    /// and is tried again every second.
    ///
    /// # Errors
    /// `EINVAL` if the socket does not listen or is none of streams, else what `getsockopt` or `fcntl` says.
    pub fn listening(name: &str, socket: OwnedFd, path: Option<PathBuf>) -> io::Result<Object> {
        let is_of_streams = sockopt::socket_type(&socket)? == SocketType::STREAM;
        if !(is_of_streams && sockopt::socket_acceptconn(&socket)?) {
            return Err(Errno::INVAL.into());
        }
        fcntl_setfl(&socket, fcntl_getfl(&socket)? | OFlags::NONBLOCK)?;
        let listener = Listener { socket, is_told: false, is_failure_told: false, _name: path.map(Name) };
        Ok(Object::new(name, Kind::Listening(listener)))
    }

    /// Returns whether it still waits for a connection.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(self.kind, Kind::Listening(_))
    }

    /// Whoever has it next tells anew of it.
    pub(crate) fn forget_told(&mut self) {
        if let Kind::Listening(listener) = &mut self.kind {
            (listener.is_told, listener.is_failure_told) = (false, false);
        }
    }

    /// Becomes the connection that has come; answers what waited for it, or nothing if nobody has come.
    ///
    /// # Errors
    /// What `accept4` says, if that is not about one connection: there may be no descriptor now.
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
                // Linux tells here what was to be told of the connection (accept(2)): that one is gone.
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

    /// Where somebody may connect to, for people.
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
