//! `sendmmsg`: many datagrams in one call, without segmentation.
//!
//! One call per train, one copy, but each packet passes the network stack by itself. Works on routes without
//! segmentation, and lets the network fragment packets that are too large.

use crate::SendError;
use crate::request::TrainRequest;

/// Sends the first packets of the train and of those behind it, at least one; returns how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    let (socket, packets) = (request.socket(), request.datagrams());
    match request.context.gather.send_each(socket, &request.file.mapping, packets) {
        Ok(packets) => Ok(packets as u32),
        Err(error) => Err(SendError::of_udp_io("sendmmsg", &error)),
    }
}
