//! `mmap_writev`: the papers' path of the same name. For each packet its header and its payload, which lies in a mapping, are
//! gathered by one call, with one copy.

use std::os::fd::AsFd;

use wirepath_sys::gather::Datagram;

use crate::{Headers, Medium, Scratch, SendError, Train, UdpSink};

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
        let payload = train.payload(index, headers).in_memory();
        let packet = Datagram { header: Some(train.header(index, headers)), payload };
        let sent =
            scratch.gather.send_segmented(sink.socket.as_fd(), &medium.mapping, std::iter::once(packet));
        sent.map(drop).map_err(|error| SendError::of_udp_io("sendmsg", &error))
    })
}
