//! `mmap_send`: the papers' path of the same name. A block is sent from a mapping of its file: one call, one copy.

use std::os::fd::AsFd;

use crate::{BlockSink, Extent, MappedFile, SendError};

/// Sends the extent, or its first bytes if the sink is a stream; answers how many.
#[inline]
pub(crate) fn send(sink: &BlockSink, medium: &MappedFile, extent: Extent) -> Result<usize, SendError> {
    let sent = medium.mapping.copy(sink.socket.as_fd(), extent.in_memory());
    sent.map_err(|error| sink.failed_io("send", &error))
}
