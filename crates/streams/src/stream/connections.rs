//! Connections that fail while nothing is read from them or written to them.
//!
//! Reads and writes report failures, but a waiting stream does neither: neither while an output is full, nor
//! on a connection for which there is nothing to send yet. A proxy has to pass the end of a connection on at
//! once, and requests that with
//! [`StreamBuilder::end_with_connections`](super::StreamBuilder::end_with_connections).

use rustix::io::Errno;
use rustix::net::sockopt::socket_error;

use super::Stream;
use crate::error::StreamError;
use crate::object::{Connection, Kind, Object, ObjectError};
use crate::port::Port;

impl Stream {
    /// Marks the connection of a port as failed (`EPOLLERR`).
    pub(crate) fn note_broken(&mut self, port: Port) {
        // A closed connection reports no events any more. A pipe reports `EPOLLERR` when its other end is
        // closed.
        let is_connection = |object: &Object| matches!(&object.kind, Kind::Stream(one) if one.is_socket);
        if self.shared.settings.ends_with_connections && self.object(port).is_some_and(is_connection) {
            self.broken = Some(port);
        }
    }

    /// Ends the stream if one of its connections has failed, after everything that can be moved has moved.
    pub(super) fn check_broken(&mut self) -> Result<(), StreamError> {
        let Some(port) = self.broken.take() else { return Ok(()) };
        self.object(port).and_then(failure).map_or(Ok(()), |error| Err(error.into()))
    }
}

fn failure(object: &Object) -> Option<ObjectError> {
    let Kind::Stream(Connection { descriptor, is_socket: true, .. }) = &object.kind else { return None };
    let errno = match socket_error(descriptor) {
        Ok(Err(errno)) => errno,
        // The error was reported to another holder of the connection, and is reported only once.
        Ok(Ok(())) | Err(_) => Errno::CONNRESET,
    };
    Some(object.error("waiting", errno))
}
