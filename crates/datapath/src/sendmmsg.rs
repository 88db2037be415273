//! `sendmmsg`: many datagrams in one call, without segmentation.
//!
//! One call per train, one copy, but the way through the network stack is paid for each packet. Works on routes that cannot
//! segment, and lets the network fragment what is too large for it.

use std::os::fd::AsFd;

use crate::gso_writev::datagrams;
use crate::{Headers, MappedFile, SendContext, SendError, Train, UdpSink};

const CALL: &str = "sendmmsg";

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    headers: Headers,
    scratch: &mut SendContext,
) -> Result<u32, SendError> {
    match scratch.gather.send_each(sink.socket.as_fd(), &medium.mapping, datagrams(train, headers)) {
        Ok(packets) => Ok(packets as u32),
        Err(error) => Err(SendError::of_udp_io(CALL, &error)),
    }
}
