//! `read_write`: the papers' path of the same name. A block is read into a buffer and sent from there: two calls and two
//! copies. What a program does that knows nothing else.

use crate::read_writev::Buffer;
use crate::{BlockSink, Extent, MappedFile, SendError};

/// Sends the extent, or its first bytes if the sink is a stream or the buffer is smaller; answers how many.
pub(crate) fn send(
    sink: &BlockSink,
    medium: &MappedFile,
    extent: Extent,
    buffer: &mut Buffer,
) -> Result<usize, SendError> {
    let room = buffer.first(extent.length);
    medium.read(extent.offset, room)?;
    rustix::net::send(&sink.socket, room, crate::block::FLAGS).map_err(|errno| sink.failed("send", errno))
}
