//! `kmsend`: the papers' path of the same name. As `ksendfile`, but from a mapping: one call, no copy. Needs the kernel module.

use crate::enhanced::From;
use crate::{BlockSink, Extent, MappedFile, SendContext, SendError, ksendfile};

/// Sends the extent's first datagrams, at least one; answers how many bytes.
#[inline]
pub(crate) fn send(
    sink: &BlockSink,
    medium: &MappedFile,
    extent: Extent,
    scratch: &mut SendContext,
) -> Result<usize, SendError> {
    let run = sink.in_datagrams(From::Mapping.run(medium, extent)?);
    ksendfile::send_run(sink, medium, extent, run, scratch)
}
