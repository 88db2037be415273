//! `rtp_sendfile`: the papers' path of the same name, and their best that existed. For each packet its header is sent, to wait
//! in the socket (MSG_MORE), and then its payload by `sendfile`: two calls, no copies from Linux 6.5 on. The papers' four calls
//! included cork and uncork.
//!
//! The socket has UDP_SEGMENT set to the packet's size, although no packet needs cutting: without it the kernel computes the
//! checksum of a datagram that had to wait, and so reads the payload after all.

use std::os::fd::AsFd;

use crate::{
    Extent, Headers, MappedFile, SendContext, SendError, Train, UdpSink, cork, mmap_writev, sendfile,
};

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    headers: Headers,
    scratch: &mut SendContext,
) -> Result<u32, SendError> {
    train.one_by_one(|index| {
        let payload = train.payload(index, headers);
        cork::begin(sink, &train.header(index, headers))?;
        match complete(sink, medium, payload, scratch) {
            Ok(true) => Ok(()),
            Ok(false) => mmap_writev::send_one(sink, medium, train, headers, index, scratch),
            Err(error) => {
                cork::discard(&sink.socket, &mut scratch.payload);
                Err(error)
            }
        }
    })
}

/// Sends the payload that completes a datagram; answers as [`sendfile::to_datagrams`].
#[inline]
fn complete(
    sink: &UdpSink,
    medium: &MappedFile,
    payload: Extent,
    scratch: &mut SendContext,
) -> Result<bool, SendError> {
    // `sendfile` of nothing would leave the header waiting.
    if payload.length == 0 || payload.confuses_checksums() {
        let sent = medium.mapping.copy(sink.socket.as_fd(), payload.in_memory());
        return sent.map(|_| true).map_err(|error| SendError::of_udp_io("send", &error));
    }
    sendfile::to_datagrams(&sink.socket, medium, payload, &mut scratch.payload)
}
