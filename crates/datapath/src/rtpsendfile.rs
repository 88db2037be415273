//! `rtpsendfile`: the papers' path of the same name. `sendfile` with a header: a call for each packet, in which the header is copied
//! and the payload is not. Needs the kernel module.

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
    train.one_by_one(|index| enhanced::send_given(From::File, sink, medium, train, headers, index, scratch))
}
