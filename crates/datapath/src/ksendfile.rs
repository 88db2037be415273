//! `ksendfile`: the papers' path of the same name. An extent of a file, however long, as a run of datagrams: what `sendfile` does
//! over TCP, done over UDP. One call, no copy. Needs the kernel module.

use wirepath_sys::module::Run;

use crate::enhanced::{self, From};
use crate::{BlockSink, Extent, MappedFile, SendContext, SendError};

/// Sends the extent's first datagrams, at least one; answers how many bytes.
#[inline]
pub(crate) fn send(
    sink: &BlockSink,
    medium: &MappedFile,
    extent: Extent,
    scratch: &mut SendContext,
) -> Result<usize, SendError> {
    send_run(sink, medium, extent, sink.in_datagrams(From::File.run(medium, extent)?), scratch)
}

/// Sends a run of an extent; answers how many bytes.
#[inline]
pub(crate) fn send_run(
    sink: &BlockSink,
    medium: &MappedFile,
    extent: Extent,
    run: Run<'_>,
    scratch: &mut SendContext,
) -> Result<usize, SendError> {
    let (device, buffer) = (&mut scratch.device, &mut scratch.payload);
    enhanced::send(sink.socket(), medium, extent, run, device, buffer).map(|sent| sent.bytes as usize)
}
