//! `gso_writev`: a train by one `sendmsg` with UDP_SEGMENT over headers and a mapping.
//!
//! One call per train, one copy. Headers are the session's own, or the stored ones, which then need no vector of their own.

use wirepath_sys::gather::Datagram;

use crate::{Headers, MappedFile, SendContext, SendError, Train, UdpSink};
use std::os::fd::AsFd;

const CALL: &str = "sendmsg";

/// Sends all of the train or nothing.
#[inline]
pub(crate) fn send(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    headers: Headers,
    scratch: &mut SendContext,
) -> Result<u32, SendError> {
    let (socket, gather) = (sink.socket.as_fd(), &mut scratch.gather);
    let sent = if headers == Headers::Stored && train.skip == 0 {
        let start = train.offset as usize;
        let whole = Datagram { header: None, payload: start..start + train.length as usize };
        gather.send_segmented(socket, &medium.mapping, std::iter::once(whole))
    } else {
        gather.send_segmented(socket, &medium.mapping, datagrams(train, headers))
    };
    match sent {
        Ok(_) => Ok(train.packets()),
        Err(error) => Err(SendError::of_udp_io(CALL, &error)),
    }
}

/// Each packet as a generated header and its payload in the mapping.
#[inline]
pub(crate) fn datagrams(train: &Train, headers: Headers) -> impl Iterator<Item = Datagram> + '_ {
    (0..train.packets()).map(move |index| {
        let payload = train.payload(index, headers).in_memory();
        Datagram { header: Some(train.header(index, headers)), payload }
    })
}
