//! `mmap_zerocopy`: a block from a mapping, whose pages the kernel borrows (MSG_ZEROCOPY): one call, no copy.
//!
//! The purpose of the papers' `mmap_msend`. To a UDP socket it sends a train of datagrams (UDP_SEGMENT). If
//! the kernel accepts no more loans, the block is copied, and counted as such.

use super::block_sink::BlockRequest;
use crate::SendError;

/// Sends the extent, or its first bytes if the sink is a stream; returns how many.
#[inline]
pub(crate) fn send(request: &BlockRequest<'_>) -> Result<usize, SendError> {
    let BlockRequest { sink, file, extent, .. } = *request;
    let lent = match extent.length {
        0 => None, // as `BlockSink::lends` says
        _ => sink.lend(|| file.mapping.lend(sink.socket(), extent.in_memory()).map(|taken| (taken, None)))?,
    };
    lent.map_or_else(|| sink.counted_copy(request.copy()), Ok)
}
