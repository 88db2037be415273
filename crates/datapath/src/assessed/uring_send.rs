//! `uring_send`: extents of registered memory by an io_uring, without a copy (Linux 6.0).
//!
//! To UDP datagrams or trains, many in one call; to TCP as much as the connection takes, a call each. A copy
//! of the file must be registered with the thread's ring.

use std::sync::Arc;

use wirepath_sys::ring::Socket;

use super::block_sink::BlockRequest;
use crate::SendError;
use crate::uring::{CALL, NOT_REGISTERED};

/// Sends the extent, or its first bytes if the sink is a stream; returns how many.
pub(crate) fn send(request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    let ring = request.context.ring()?;
    let place = ring.find(request.file, request.extent).ok_or(NOT_REGISTERED)?;
    let sent = ring.send(Arc::clone(&request.sink.socket) as Socket, place)?;
    request.context.drop_failed_ring();
    sent.map(|sent| sent as usize).map_err(|errno| request.sink.failed(CALL, errno))
}

/// Queues the extent, which is one datagram or train.
pub(crate) fn enqueue(request: &mut BlockRequest<'_>, token: u64) -> Result<(), SendError> {
    let ring = request.context.ring()?;
    let place = ring.find(request.file, request.extent).ok_or(NOT_REGISTERED)?;
    ring.enqueue(Arc::clone(&request.sink.socket) as Socket, place, token)
}
