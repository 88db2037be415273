//! `rtp_sendfile`: the papers' path of the same name, the best of their existing paths. For each packet its
//! header is sent, to wait in the socket (MSG_MORE), and then its payload by `sendfile`: two calls, no copies
//! from Linux 6.5 on. The papers' four calls included cork and uncork.
//!
//! The socket has UDP_SEGMENT set to the packet's size, although no packet needs cutting: without it the
//! kernel computes the checksum of a datagram that had to wait, and so reads the payload after all.

use crate::request::TrainRequest;
use crate::serving::{gso_writev, sendfile};
use crate::{Extent, SendError, cork};

/// Sends the train's first packets, at least one; returns how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    request.one_by_one(|request, index| {
        let (socket, payload) = (request.socket(), request.payload(index));
        cork::begin(socket, &request.header(index)?)?;
        match complete(request, payload) {
            Ok(true) => Ok(()),
            Ok(false) => gso_writev::send_packet(request, index),
            Err(error) => {
                cork::discard(socket, &mut request.context.buffer);
                Err(error)
            }
        }
    })
}

/// Sends the payload that completes a datagram; returns as [`sendfile::to_datagrams`].
#[inline]
fn complete(request: &mut TrainRequest<'_>, payload: Extent) -> Result<bool, SendError> {
    // A `sendfile` of no bytes would leave the header waiting.
    if payload.length == 0 || payload.confuses_checksums() {
        let sent = request.file.mapping.copy(request.socket(), payload.in_memory());
        return sent.map(|_| true).map_err(|error| SendError::of_udp_io("send", &error));
    }
    sendfile::to_datagrams(request.socket(), request.file, payload, &mut request.context.buffer)
}
