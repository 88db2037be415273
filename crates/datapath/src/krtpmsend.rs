//! `krtpmsend`: the papers' path of the same name. As `krtpsendfile`, but from a mapping: one call, no copy. Needs the kernel module.

use crate::enhanced::{self, From};
use crate::{Headers, MappedFile, SendContext, SendError, Train, UdpSink};

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    headers: Headers,
    scratch: &mut SendContext,
) -> Result<u32, SendError> {
    enhanced::send_rtp(From::Mapping, sink, medium, train, headers, scratch)
}
