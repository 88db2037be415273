//! `mmap_rtpmsend`: the papers' path of the same name. For each packet a call that copies its header and
//! takes its payload from a mapping by reference. Needs the kernel module.

use crate::SendError;
use crate::request::TrainRequest;
use crate::serving::kernel_module::{From, send_packet};

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    request.one_by_one(|request, index| send_packet(From::Mapping, request, index))
}
