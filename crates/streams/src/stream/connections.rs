//! Connections that fail while nothing is read from them or written to them.
//!
//! Reads and writes report failures, but a stream that waits does neither: not while an output takes nothing,
//! and not on a connection that has nothing to get yet. A proxy has to pass the end of a connection on at
//! once, and asks for that with
//! [`StreamBuilder::end_with_connections`](super::StreamBuilder::end_with_connections).

use rustix::io::Errno;
use rustix::net::sockopt::socket_error;

use super::Stream;
use crate::error::StreamError;
use crate::object::{Connection, Kind, Object, ObjectError};
use crate::port::Port;

impl Stream {
    /// The connection of a port has failed (`EPOLLERR`).
    pub(crate) fn note_broken(&mut self, port: Port) {
        // A closed connection reports nothing any more, and a pipe reports that its other end is closed.
        let is_connection = |object: &Object| matches!(&object.kind, Kind::Stream(one) if one.is_socket);
        if self.shared.settings.ends_with_connections && self.object(port).is_some_and(is_connection) {
            self.broken = Some(port);
        }
    }

    /// Ends the stream if a connection of it has failed, now that all that can be moved has been.
    pub(super) fn check_broken(&mut self) -> Result<(), StreamError> {
        let Some(port) = self.broken.take() else { return Ok(()) };
        self.object(port).and_then(failure).map_or(Ok(()), |error| Err(error.into()))
    }
}

fn failure(object: &Object) -> Option<ObjectError> {
    let Kind::Stream(Connection { descriptor, is_socket: true, .. }) = &object.kind else { return None };
    let errno = match socket_error(descriptor) {
        Ok(Err(errno)) => errno,
        // The error was reported to another holder of the connection, and is not reported twice.
        Ok(Ok(())) | Err(_) => Errno::CONNRESET,
    };
    Some(object.error("waiting", errno))
}
