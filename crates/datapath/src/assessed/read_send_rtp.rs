//! `read_send_rtp`: the papers' path of the same name. For each packet its payload is read into a buffer
//! behind its header, and both are sent from there: two calls and two copies. Works everywhere.

use rustix::net::send as send_bytes;
use wirepath_media::rtp::HEADER_LENGTH;

use crate::SendError;
use crate::request::TrainRequest;
use crate::sink::FLAGS;

/// Sends the train's first packets, at least one; returns how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    request.one_by_one(|request, index| {
        let (extent, generated) = (request.payload(index), request.header(index)?);
        let packet = request.context.buffer.first(HEADER_LENGTH + extent.length);
        let (header, payload) = packet.split_at_mut(HEADER_LENGTH);
        header.copy_from_slice(&generated);
        request.file.read(extent.offset, payload)?;
        let sent = send_bytes(request.sink.socket(), packet, FLAGS);
        sent.map(drop).map_err(|errno| SendError::of_udp("send", errno))
    })
}
