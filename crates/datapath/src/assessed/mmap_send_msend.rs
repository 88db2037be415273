//! `mmap_send_msend`: the papers' path of the same name. For each packet its header is sent, to wait in the
//! socket (MSG_MORE), and then its payload from a mapping: two calls, no copy of payload. The papers' four
//! calls included cork and uncork. Needs the kernel module.
//!
//! The socket has UDP_SEGMENT set only for the checksums, as for `rtp_sendfile`: without it, or if the device
//! computes none, the module copies the payload that completes a waiting packet.

use crate::SendError;
use crate::cork;
use crate::request::TrainRequest;
use crate::serving::gso_writev;
use crate::serving::kernel_module::{Source, send_run};

/// Sends the train's first packets, at least one; returns how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    request.one_by_one(|request, index| {
        let payload = request.payload(index);
        if payload.length == 0 || payload.confuses_checksums() {
            return gso_writev::send_packet(request, index);
        }
        let (socket, file) = (request.socket(), request.file);
        let run = Source::Mapping.run(file, payload)?;
        cork::begin(socket, &request.header(index)?)?;
        send_run(socket, file, payload, run, request.context)
            .map(drop)
            .inspect_err(|_| cork::discard(socket, &mut request.context.buffer))
    })
}
