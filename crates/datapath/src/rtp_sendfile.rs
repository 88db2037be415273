//! `rtp_sendfile`: the papers' path of the same name, and their best that existed. For each packet its header is sent, to wait
//! in the socket (MSG_MORE), and then its payload by `sendfile`: two calls, no copies from Linux 6.5 on. The papers' four calls
//! included cork and uncork.
//!
//! The socket has UDP_SEGMENT set to the packet's size, although no packet needs cutting: without it the kernel computes the
//! checksum of a datagram that had to wait, and so reads the payload after all.

use std::os::fd::AsFd;

use rustix::fs::sendfile;
use rustix::io::Errno;

use crate::{Extent, Headers, Medium, Scratch, SendError, Train, UdpSink, cork};

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(
    sink: &UdpSink,
    medium: &Medium,
    train: &Train,
    headers: Headers,
    scratch: &mut Scratch,
) -> Result<u32, SendError> {
    train.one_by_one(|index| {
        cork::begin(sink, &train.header(index, headers))?;
        complete(sink, medium, train.payload(index, headers))
            .inspect_err(|_| cork::discard(sink, &mut scratch.payload))
    })
}

/// Sends the payload that completes a datagram.
#[inline]
fn complete(sink: &UdpSink, medium: &Medium, payload: Extent) -> Result<(), SendError> {
    // `sendfile` of nothing would leave the header waiting.
    if payload.length == 0 || payload.confuses_checksums() {
        let sent = medium.mapping.copy(sink.socket.as_fd(), payload.in_memory());
        return sent.map(drop).map_err(|error| SendError::of_udp_io("send", &error));
    }
    const CALL: &str = "sendfile";
    let mut offset = payload.offset;
    match sendfile(&sink.socket, &medium.file, Some(&mut offset), payload.length) {
        Ok(sent) if sent == payload.length => Ok(()),
        Ok(_) => Err(SendError::Storage { call: CALL, errno: Errno::NODATA }),
        Err(errno) => Err(SendError::of_udp(CALL, errno)),
    }
}
