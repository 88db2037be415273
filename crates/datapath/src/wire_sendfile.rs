//! `wire_sendfile`: a train of ready packets by one `sendfile` to a socket with UDP_SEGMENT.
//!
//! One call per train; no copies from Linux 6.5 on, where pages go into the socket buffer by reference
//! (MSG_SPLICE_PAGES). Headers are those of the image. A single packet that the kernel may give a wrong checksum
//! is sent from the mapping, with a copy; images, in which all lengths are even, have none.

use crate::{Headers, MappedFile, SendContext, SendError, Train, UdpSink, gso_writev, sendfile};

/// Sends all of the train or nothing.
#[inline]
pub(crate) fn send(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    scratch: &mut SendContext,
) -> Result<u32, SendError> {
    let whole = train.extent();
    if train.packets() == 1 && whole.confuses_checksums() {
        return gso_writev::send(sink, medium, train, Headers::Stored, scratch);
    }
    if sendfile::to_datagrams(&sink.socket, medium, whole, &mut scratch.payload)? {
        return Ok(train.packets());
    }
    gso_writev::send(sink, medium, train, Headers::Stored, scratch)
}
