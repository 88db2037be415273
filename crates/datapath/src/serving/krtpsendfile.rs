//! `krtpsendfile`: the papers' best path of the same name. A run of packets from a file, behind headers that
//! the RTP engine in the kernel makes: one call, no copy. Needs the kernel module.

use super::kernel_module::{From, send_rtp};
use crate::SendError;
use crate::request::TrainRequest;

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    send_rtp(From::File, request)
}
