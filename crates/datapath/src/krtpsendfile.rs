//! `krtpsendfile`: the papers' best path of the same name. A run of packets from a file, behind headers that the RTP engine in the
//! kernel makes: one call, no copy. Needs the kernel module.

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
    enhanced::send_rtp(From::File, sink, medium, train, headers, scratch)
}
