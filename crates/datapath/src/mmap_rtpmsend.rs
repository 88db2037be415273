//! `mmap_rtpmsend`: the papers' path of the same name. For each packet a call that copies its header and takes its payload from a
//! mapping by reference. Needs the kernel module.

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
    train
        .one_by_one(|index| enhanced::send_given(From::Mapping, sink, medium, train, headers, index, scratch))
}
