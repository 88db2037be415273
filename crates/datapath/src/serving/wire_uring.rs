//! `wire_uring`: trains of ready packets from registered memory, queued in an io_uring and sent together.
//!
//! One call for all trains that are due together, no copies (Linux 6.0): a zero-copy send refers to pages
//! that were pinned when the file's copy was registered. Headers are those of the image.

use std::sync::Arc;

use wirepath_sys::ring::Socket;

use crate::SendError;
use crate::request::TrainRequest;
use crate::uring::{CALL, NOT_REGISTERED};

/// Queues all of the train.
#[inline]
pub(crate) fn enqueue(request: &mut TrainRequest<'_>, token: u64) -> Result<(), SendError> {
    let ring = request.context.ring()?;
    let place = ring.find(request.file, request.train.extent()).ok_or(NOT_REGISTERED)?;
    ring.enqueue(Arc::clone(&request.sink.socket) as Socket, place, token)
}

/// Sends all of the train or nothing.
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    let ring = request.context.ring()?;
    let place = ring.find(request.file, request.train.extent()).ok_or(NOT_REGISTERED)?;
    let sent = ring.send(Arc::clone(&request.sink.socket) as Socket, place)?;
    request.context.drop_failed_ring();
    sent.map(|_| request.train.packets()).map_err(|errno| SendError::of_udp(CALL, errno))
}
