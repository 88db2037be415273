//! Datagrams made by two calls: the header waits in the socket (MSG_MORE) for its payload. The papers cork
//! and uncork, with two more calls.
//!
//! If the payload fails, its header must not stay in the socket: the next datagram would begin with it.

use std::os::fd::AsFd;

use rustix::net::{SendFlags, send};

use crate::SendError;
use crate::buffer::Buffer;

const FLAGS: SendFlags = crate::sink::FLAGS.union(SendFlags::MORE);

/// Leaves `header` waiting in the socket for the rest of its datagram.
#[inline]
pub(crate) fn begin(socket: impl AsFd, header: &[u8]) -> Result<(), SendError> {
    match send(socket, header, FLAGS) {
        Ok(_) => Ok(()),
        Err(errno) => Err(SendError::of_udp("send", errno)), // the kernel drops what waits when adding to it fails
    }
}

/// Drops the unfinished datagram or train that a failed call or a short `sendfile` may have left in a UDP
/// socket. The kernel has no call for it, but drops the data when more is added than fits a datagram.
#[cold]
pub(crate) fn discard(socket: impl AsFd, buffer: &mut Buffer) {
    let too_much = buffer.first(usize::from(u16::MAX));
    let refused = send(socket, too_much, FLAGS);
    debug_assert!(refused.is_err(), "no datagram is that long");
}
