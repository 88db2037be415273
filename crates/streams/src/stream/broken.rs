//! Connections that fail while nothing is read from them or written to them.
//!
//! A read or write says so by itself, but a stream that waits does neither: not while an output takes nothing, and not to a connection
//! that has nothing to get yet. Who relays a connection has to pass its end on at once, and asks for that with
//! [`StreamBuilder::end_with_connections`](super::StreamBuilder::end_with_connections).

use rustix::io::Errno;
use rustix::net::sockopt::socket_error;

use super::{Port, Stream, StreamError};
use crate::object::{Connection, Kind, Object, ObjectError};

impl Stream {
    /// The connection of a port has failed (`EPOLLERR`).
    pub(crate) fn note_broken(&mut self, port: Port) {
        // One that is done with tells nothing any more, and a pipe tells that its other end is closed.
        let is_connection = |object: &Object| matches!(&object.kind, Kind::Stream(one) if one.is_socket);
        if self.settings.ends_with_connections && self.object(port).is_some_and(is_connection) {
            self.broken = Some(port);
        }
    }

    /// Ends the stream if a connection of it has failed, now that all that can be moved has been.
    pub(super) fn check_broken(&mut self) -> Result<(), StreamError> {
        let Some(port) = self.broken.take() else { return Ok(()) };
        self.object(port).and_then(failure).map_or(Ok(()), |error| Err(error.into()))
    }

    pub(super) fn object(&self, port: Port) -> Option<&Object> {
        let inputs = self.inputs.iter().map(|input| (input.port, &input.object));
        let outputs = self.outputs.iter().chain(&self.leaving).map(|output| (output.port, &output.object));
        inputs.chain(outputs).find(|(of_object, _)| *of_object == port).map(|(_, object)| object)
    }
}

/// What has become of a connection that has failed.
fn failure(object: &Object) -> Option<ObjectError> {
    let Kind::Stream(Connection { descriptor, is_socket: true, .. }) = &object.kind else { return None };
    let errno = match socket_error(descriptor) {
        Ok(Err(errno)) => errno,
        // Whoever has the same connection has asked before, and nobody is told twice.
        Ok(Ok(())) | Err(_) => Errno::CONNRESET,
    };
    Some(object.error("waiting", errno))
}
