//! `mmap_msend`: the papers' path of the same name. For each datagram a call that takes it from a mapping by reference: no copy, and,
//! unlike `mmap_zerocopy`, no loan to hear of. Needs the kernel module.

use crate::enhanced::From;
use crate::{BlockSink, Extent, MappedFile, SendContext, SendError, ksendfile};

/// Sends the extent as one datagram.
#[inline]
pub(crate) fn send(
    sink: &BlockSink,
    medium: &MappedFile,
    extent: Extent,
    scratch: &mut SendContext,
) -> Result<usize, SendError> {
    ksendfile::send_run(sink, medium, extent, From::Mapping.run(medium, extent)?, scratch)
}
