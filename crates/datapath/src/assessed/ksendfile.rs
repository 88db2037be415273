//! `ksendfile`, `kmsend` and `mmap_msend`: the papers' paths of the same names. Blocks as datagrams by the
//! kernel module, by reference.
//!
//! `ksendfile` sends an extent, however long, as a run of datagrams in one call, as `sendfile` does over TCP;
//! `kmsend` does so from a mapping. `mmap_msend` needs a call for each datagram, and, unlike `mmap_zerocopy`,
//! has no loan to complete.

use wirepath_sys::module::Run;

use super::block_sink::BlockRequest;
use crate::SendError;
use crate::serving::kernel_module::{Source, send_run};

/// Sends the extent's first datagrams, at least one; returns how many bytes.
#[inline]
pub(crate) fn send_datagrams(from: Source, request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    let run = request.sink.in_datagrams(from.run(request.file, request.extent)?);
    send(run, request)
}

/// Sends the extent as one datagram; returns how many bytes.
#[inline]
pub(crate) fn send_datagram(from: Source, request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    send(from.run(request.file, request.extent)?, request)
}

#[inline]
fn send(run: Run<'_>, request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    let BlockRequest { sink, file, extent, .. } = *request;
    send_run(sink.socket(), file, extent, run, request.context).map(|sent| sent.bytes as usize)
}
