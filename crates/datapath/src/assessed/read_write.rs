//! `read_write`: the papers' path of the same name. A block is read into a buffer and sent from there: two
//! calls and two copies. This is what a simple program does.

use super::block_sink::BlockRequest;
use crate::SendError;
use crate::sink::FLAGS;

/// Sends the extent, or its first bytes if the sink is a stream or the buffer is smaller; returns how many.
pub(crate) fn send(request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    let BlockRequest { sink, file, extent, .. } = *request;
    let room = request.context.buffer.first(extent.length);
    file.read(extent.offset, room)?;
    rustix::net::send(sink.socket(), room, FLAGS).map_err(|errno| sink.failed("send", errno))
}
