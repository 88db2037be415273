//! `rtpsendfile`: the papers' path of the same name. `sendfile` with a header: a call for each packet, in
//! which the header is copied and the payload is not. Needs the kernel module.

use crate::SendError;
use crate::request::TrainRequest;
use crate::serving::kernel_module::{From, send_packet};

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    request.one_by_one(|request, index| send_packet(From::File, request, index))
}
