//! `wire_sendfile`: a train of ready packets by one `sendfile` to a socket with UDP_SEGMENT.
//!
//! One call per train; no copies from Linux 6.5 on, where pages go into the socket buffer by reference
//! (MSG_SPLICE_PAGES). Headers are those of the image. A single packet for which the kernel may compute a
//! wrong checksum is sent from the mapping, with a copy; images have no such packets, since their trains
//! begin at even offsets.

use super::{gso_writev, sendfile};
use crate::SendError;
use crate::request::TrainRequest;

/// Sends all of the train or nothing.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    let (train, whole) = (request.train, request.train.extent());
    if train.packets() == 1 && whole.confuses_checksums() {
        return gso_writev::send(request);
    }
    if sendfile::to_datagrams(request.socket(), request.file, whole, &mut request.context.buffer)? {
        return Ok(train.packets());
    }
    gso_writev::send(request)
}
