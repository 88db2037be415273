//! `read_writev`: the papers' path of the same name. For each packet, its payload is read into a buffer and
//! written to the socket behind a header: two calls and two copies. Works everywhere.

use std::io::IoSlice;

use rustix::io::writev;

use crate::SendError;
use crate::request::TrainRequest;

/// Sends the train's first packets, at least one; returns how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    request.one_by_one(|request, index| {
        if request.train.is_as_stored(index, request.headers) {
            let extent = request.train.stored_packet(index);
            let packet = request.context.buffer.first(extent.length);
            request.file.read(extent.offset, packet)?;
            let sent = writev(request.sink.socket(), &[IoSlice::new(packet)]);
            return sent.map(drop).map_err(|errno| SendError::of_udp("writev", errno));
        }
        let (extent, header) = (request.payload(index), request.header(index)?);
        let payload = request.context.buffer.first(extent.length);
        request.file.read(extent.offset, payload)?;
        let sent = writev(request.sink.socket(), &[IoSlice::new(&header), IoSlice::new(payload)]);
        sent.map(drop).map_err(|errno| SendError::of_udp("writev", errno))
    })
}
