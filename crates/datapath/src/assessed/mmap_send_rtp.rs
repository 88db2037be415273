//! `mmap_send_rtp`: the papers' path of the same name. For each packet its header is sent, to wait in the
//! socket (MSG_MORE), and then its payload from a mapping: two calls, one copy. The papers' four calls
//! included cork and uncork.

use crate::SendError;
use crate::cork;
use crate::request::TrainRequest;

/// Sends the train's first packets, at least one; returns how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    request.one_by_one(|request, index| {
        let socket = request.socket();
        cork::begin(socket, &request.header(index)?)?;
        let payload = request.payload(index).in_memory();
        request.file.mapping.copy(socket, payload).map(drop).map_err(|error| {
            cork::discard(socket, &mut request.context.buffer);
            SendError::of_udp_io("send", &error)
        })
    })
}
