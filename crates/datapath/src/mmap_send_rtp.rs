//! `mmap_send_rtp`: the papers' path of the same name. For each packet its header is sent, to wait in the socket (MSG_MORE), and
//! then its payload from a mapping: two calls, one copy. The papers' four calls included cork and uncork.

use std::os::fd::AsFd;

use crate::{Headers, MappedFile, SendContext, SendError, Train, UdpSink, cork};

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
        cork::begin(sink, &train.header(index, headers))?;
        let payload = train.payload(index, headers).in_memory();
        medium.mapping.copy(sink.socket.as_fd(), payload).map(drop).map_err(|error| {
            cork::discard(&sink.socket, &mut scratch.payload);
            SendError::of_udp_io("send", &error)
        })
    })
}
