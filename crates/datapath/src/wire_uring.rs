//! `wire_uring`: trains of ready packets from registered memory, queued in an io_uring and sent together.
//!
//! One call for all trains that are due together, no copies (Linux 6.0): a zero-copy send refers to pages that were pinned when
//! the medium's copy was registered. Headers are those of the image.

use std::sync::Arc;

use wirepath_sys::ring::Socket;

use crate::uring::CALL;
use crate::{MappedFile, SendContext, SendError, Train, UdpSink};
use rustix::io::Errno;

/// Queues all of the train.
#[inline]
pub(crate) fn enqueue(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    scratch: &mut SendContext,
    token: u64,
) -> Result<(), SendError> {
    let ring = scratch.ring()?;
    let place = ring.find(medium, train.extent()).ok_or(NOT_HELD)?;
    ring.enqueue(Arc::clone(&sink.socket) as Socket, place, token)
}

/// Sends all of the train or nothing.
pub(crate) fn send(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    scratch: &mut SendContext,
) -> Result<u32, SendError> {
    let ring = scratch.ring()?;
    let place = ring.find(medium, train.extent()).ok_or(NOT_HELD)?;
    let sent = ring.send(Arc::clone(&sink.socket) as Socket, place)?;
    scratch.drop_failed_ring();
    sent.map(|_| train.packets()).map_err(|errno| SendError::of_udp(CALL, errno))
}

/// The ring does not hold what is to be sent.
pub(crate) const NOT_HELD: SendError = SendError::Unsupported { call: CALL, errno: Errno::OPNOTSUPP };
