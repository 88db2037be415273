//! A datagram made by two calls: its header waits in the socket (MSG_MORE) for the payload that completes it.
//! What the papers do with cork and uncork, in two calls less.
//!
//! A payload that fails must not leave its header waiting, or the next datagram would begin with it.

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

/// Drops what waits in a UDP socket for the rest of its datagram or train, if something does: a call that
/// failed, or a `sendfile` that found nothing to go on with, may have left it there. The kernel has no call
/// for it, but drops what waits when something is added that no datagram has room for.
#[cold]
pub(crate) fn discard(socket: impl AsFd, buffer: &mut Buffer) {
    let too_much = buffer.first(usize::from(u16::MAX));
    let refused = send(socket, too_much, FLAGS);
    debug_assert!(refused.is_err(), "no datagram is that long");
}
