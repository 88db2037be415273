//! Sending of blocks by a [`BlockPath`].

use super::block_path::BlockPath;
use super::block_sink::{BlockRequest, BlockSink};
use super::{ksendfile, loan, mmap_zerocopy, read_write, uring_send};
use crate::serving::kernel_module::Source;
use crate::serving::sendfile;
use crate::{Extent, MappedFile, SendContext, SendError, SendOutcome};

impl BlockPath {
    /// Sends the extent: to a UDP socket as one datagram (or train) or not at all, or, if the path takes
    /// runs, its first datagrams; to a TCP connection as much of it as it accepts now. Returns how many
    /// bytes, at least one. Never blocks, allocates nothing.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    #[inline]
    pub fn send(
        self,
        sink: &BlockSink,
        file: &MappedFile,
        extent: Extent,
        context: &mut SendContext,
    ) -> Result<usize, SendError> {
        self.send_request(&mut BlockRequest { sink, file, extent, context })
    }

    /// Like `send`, but a datagram or train whose path supports queueing is only queued, and
    /// [`SendContext::flush`] returns its result with `token` (any number except `u64::MAX`).
    ///
    /// # Errors
    /// As `send`; [`SendError::Full`] also if the queue has no room before the next flush.
    #[inline]
    pub fn enqueue(
        self,
        sink: &BlockSink,
        file: &MappedFile,
        extent: Extent,
        context: &mut SendContext,
        token: u64,
    ) -> Result<SendOutcome<usize>, SendError> {
        let mut request = BlockRequest { sink, file, extent, context };
        match self {
            BlockPath::UringSend if !sink.is_stream() => {
                uring_send::enqueue(&mut request, token).map(|()| SendOutcome::Queued)
            }
            path => path.send_request(&mut request).map(SendOutcome::Sent),
        }
    }

    #[inline]
    fn send_request(self, request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
        match self {
            BlockPath::MmapZerocopy => mmap_zerocopy::send(request),
            BlockPath::Loan => loan::send(request),
            BlockPath::UringSend => uring_send::send(request),
            BlockPath::Sendfile => send_file(request),
            BlockPath::MmapSend => request.copy(),
            BlockPath::ReadWrite => read_write::send(request),
            BlockPath::Ksendfile => ksendfile::send_datagrams(Source::File, request),
            BlockPath::Kmsend => ksendfile::send_datagrams(Source::Mapping, request),
            BlockPath::MmapMsend => ksendfile::send_datagram(Source::Mapping, request),
        }
    }
}

/// `sendfile`: sends the extent, or its first bytes if the sink is a stream; returns how many. A datagram for
/// which the kernel may compute a wrong checksum is sent from the mapping, with a copy.
#[inline]
fn send_file(request: &mut BlockRequest<'_>) -> Result<usize, SendError> {
    let BlockRequest { sink, file, extent, .. } = *request;
    if sink.is_stream() {
        return sendfile::to_stream(sink.socket(), file.file(), extent.offset, extent.length);
    }
    if extent.confuses_checksums()
        || !sendfile::to_datagrams(sink.socket(), file, extent, &mut request.context.buffer)?
    {
        return request.copy();
    }
    Ok(extent.length)
}
