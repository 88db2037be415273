//! `krtpmsend`: the papers' path of the same name. As `krtpsendfile`, but from a mapping: one call, no copy.
//! Needs the kernel module.

use crate::SendError;
use crate::request::TrainRequest;
use crate::serving::kernel_module::{From, send_rtp};

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    send_rtp(From::Mapping, request)
}
