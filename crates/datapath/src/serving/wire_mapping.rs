//! `wire_mapping`: trains of ready packets from the file's mapping, queued in an io_uring and sent together.
//!
//! One call for all trains that are due together, no copies (Linux 6.0): a zero-copy send takes references to
//! the pages of the page cache, as `sendfile` does, but without a pipe. Nothing is registered or copied before.

use std::sync::Arc;

use wirepath_sys::ring::Socket;

use crate::request::TrainRequest;
use crate::{SendError, Train};

/// Queues all of the train.
#[inline]
pub(crate) fn enqueue(request: &mut TrainRequest<'_>, token: u64) -> Result<(), SendError> {
    let (socket, file) = (Arc::clone(&request.sink.socket) as Socket, request.file);
    request.context.ring()?.enqueue_mapped(socket, &file.mapping, range(&request.train), token)
}

/// Sends all of the train or nothing.
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    let (socket, file) = (Arc::clone(&request.sink.socket) as Socket, request.file);
    let sent = request.context.ring()?.send_mapped(socket, &file.mapping, range(&request.train))?;
    request.context.drop_failed_ring();
    sent.map(|_| request.train.packets()).map_err(|errno| SendError::of_udp(crate::uring::CALL, errno))
}

#[inline]
fn range(train: &Train) -> std::ops::Range<usize> {
    train.extent().in_memory()
}
