//! `mmap_writev`: the papers' path of the same name. For each packet its header and its payload, which lies in a mapping, are
//! gathered by one call, with one copy.

use std::os::fd::AsFd;

use wirepath_sys::gather::Datagram;

use crate::{Headers, MappedFile, SendContext, SendError, Train, UdpSink};

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    headers: Headers,
    scratch: &mut SendContext,
) -> Result<u32, SendError> {
    train.one_by_one(|index| send_one(sink, medium, train, headers, index, scratch))
}

/// Sends packet `index` of the train.
#[inline]
pub(crate) fn send_one(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    headers: Headers,
    index: u32,
    scratch: &mut SendContext,
) -> Result<(), SendError> {
    let payload = train.payload(index, headers).in_memory();
    let packet = Datagram { header: Some(train.header(index, headers)), payload };
    let (socket, packet) = (sink.socket.as_fd(), std::iter::once(packet));
    let sent = scratch.gather.send_segmented(socket, &medium.mapping, packet);
    sent.map(drop).map_err(|error| SendError::of_udp_io("sendmsg", &error))
}
