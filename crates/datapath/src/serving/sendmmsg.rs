//! `sendmmsg`: many datagrams in one call, without segmentation.
//!
//! One call per train, one copy, but the way through the network stack is paid for each packet. Works on
//! routes that cannot segment, and lets the network fragment what is too large for it.

use crate::SendError;
use crate::request::TrainRequest;

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    let (socket, packets) = (request.socket(), request.train.datagrams(request.headers));
    match request.context.gather.send_each(socket, &request.file.mapping, packets) {
        Ok(packets) => Ok(packets as u32),
        Err(error) => Err(SendError::of_udp_io("sendmmsg", &error)),
    }
}
