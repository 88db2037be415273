//! `mmap_msend`: the papers' path of the same name. For each datagram a call that takes it from a mapping by
//! reference: no copy, and, unlike `mmap_zerocopy`, no loan to hear of. Needs the kernel module.

use super::ksendfile::send_block;
use crate::SendError;
use crate::request::BlockRequest;
use crate::serving::kernel_module::From;

/// Sends the extent as one datagram.
#[inline]
pub(crate) fn send(request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    send_block(From::Mapping.run(request.file, request.extent)?, request)
}
