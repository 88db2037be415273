//! `mmap_send_msend`: the papers' path of the same name. For each packet its header is sent, to wait in the socket (MSG_MORE), and
//! then its payload from a mapping: two calls, no copy of payload. The papers' four calls included cork and uncork. Needs the kernel
//! module.
//!
//! The socket has UDP_SEGMENT set for the sake of its checksums, as for `rtp_sendfile`: without it, or where the device computes none,
//! the module copies what completes a packet that waits.

use std::os::fd::AsFd;

use crate::enhanced::{self, From};
use crate::{Headers, MappedFile, SendContext, SendError, Train, UdpSink, cork, mmap_writev};

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
        if payload.length == 0 || payload.confuses_checksums() {
            return mmap_writev::send_one(sink, medium, train, headers, index, scratch);
        }
        let run = From::Mapping.run(medium, payload)?;
        cork::begin(sink, &train.header(index, headers))?;
        let (device, buffer) = (&mut scratch.device, &mut scratch.payload);
        enhanced::send(sink.socket.as_fd(), medium, payload, run, device, buffer).map(drop).inspect_err(
            |_| {
                cork::discard(&sink.socket, &mut scratch.payload);
            },
        )
    })
}
