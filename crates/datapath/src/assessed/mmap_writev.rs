//! `mmap_writev`: the papers' path of the same name. For each packet its header and its payload, which lies
//! in a mapping, are gathered by one call, with one copy.

use crate::SendError;
use crate::request::TrainRequest;
use crate::serving::gso_writev::send_packet;

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    request.one_by_one(send_packet)
}
