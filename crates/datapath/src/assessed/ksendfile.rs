//! `ksendfile`: the papers' path of the same name. An extent of a file, however long, as a run of datagrams:
//! what `sendfile` does over TCP, done over UDP. One call, no copy. Needs the kernel module.

use wirepath_sys::module::Run;

use crate::SendError;
use crate::request::BlockRequest;
use crate::serving::kernel_module::{From, send_run};

/// Sends the extent's first datagrams, at least one; answers how many bytes.
#[inline]
pub(crate) fn send(request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    send_datagrams(From::File, request)
}

/// Sends the extent's first datagrams, at least one, from a file or its mapping; answers how many bytes.
#[inline]
pub(super) fn send_datagrams(from: From, request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    let run = request.sink.in_datagrams(from.run(request.file, request.extent)?);
    send_block(run, request)
}

/// Sends a run of the extent; answers how many bytes.
#[inline]
pub(super) fn send_block(run: Run<'_>, request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    let BlockRequest { sink, file, extent, .. } = *request;
    send_run(sink.socket(), file, extent, run, request.context).map(|sent| sent.bytes as usize)
}
