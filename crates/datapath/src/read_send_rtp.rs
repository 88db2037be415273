//! `read_send_rtp`: the papers' path of the same name. For each packet its payload is read into a buffer behind its header, and
//! both are sent from there: two calls and two copies. Works everywhere.

use wirepath_media::rtp::HEADER_LENGTH;

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
    train.one_by_one(|index| {
        let extent = train.payload(index, headers);
        let packet = scratch.payload.first(HEADER_LENGTH + extent.length);
        let (header, payload) = packet.split_at_mut(HEADER_LENGTH);
        header.copy_from_slice(&train.header(index, headers));
        medium.read(extent.offset, payload)?;
        let sent = rustix::net::send(&sink.socket, packet, crate::block::FLAGS);
        sent.map(drop).map_err(|errno| SendError::of_udp("send", errno))
    })
}
