//! `mmap_send`: the papers' path of the same name. A block is sent from a mapping of its file: one call, one
//! copy.

use crate::SendError;
use crate::request::BlockRequest;

/// Sends the extent, or its first bytes if the sink is a stream; answers how many.
#[inline]
pub(crate) fn send(request: &BlockRequest<'_>) -> Result<usize, SendError> {
    let sent = request.file.mapping.copy(request.sink.socket(), request.extent.in_memory());
    sent.map_err(|error| request.sink.failed_io("send", &error))
}
