//! `kmsend`: the papers' path of the same name. As `ksendfile`, but from a mapping: one call, no copy. Needs
//! the kernel module.

use super::ksendfile::send_datagrams;
use crate::SendError;
use crate::request::BlockRequest;
use crate::serving::kernel_module::From;

/// Sends the extent's first datagrams, at least one; answers how many bytes.
#[inline]
pub(crate) fn send(request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    send_datagrams(From::Mapping, request)
}
