//! `uring_send`: extents of registered memory by an io_uring, without a copy (Linux 6.0).
//!
//! To UDP a datagram or a train, many in one call; to TCP as much as the connection takes, a call each. The medium must have a
//! copy that the thread's ring holds; there is no other way to send it under this name.

use std::sync::Arc;

use wirepath_sys::ring::Socket;

use crate::wire_uring::NOT_HELD;
use crate::{BlockSink, Extent, MappedFile, SendContext, SendError};

const CALL: &str = crate::uring::CALL;

/// Sends the extent, or its first bytes if the sink is a stream; answers how many.
pub(crate) fn send(
    sink: &BlockSink,
    medium: &MappedFile,
    extent: Extent,
    scratch: &mut SendContext,
) -> Result<usize, SendError> {
    let ring = scratch.ring()?;
    let place = ring.find(medium, extent).ok_or(NOT_HELD)?;
    let sent = ring.send(Arc::clone(&sink.socket) as Socket, place)?;
    scratch.drop_failed_ring();
    sent.map(|sent| sent as usize).map_err(|errno| sink.failed(CALL, errno))
}

/// Queues the extent, which is one datagram or train.
pub(crate) fn enqueue(
    sink: &BlockSink,
    medium: &MappedFile,
    extent: Extent,
    scratch: &mut SendContext,
    token: u64,
) -> Result<(), SendError> {
    let ring = scratch.ring()?;
    let place = ring.find(medium, extent).ok_or(NOT_HELD)?;
    ring.enqueue(Arc::clone(&sink.socket) as Socket, place, token)
}
