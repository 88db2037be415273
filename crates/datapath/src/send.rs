//! Sending by a data path: the one name for all of them.

use crate::assessed::{
    gso_zerocopy, kmsend, krtpmsend, ksendfile, mmap_msend, mmap_rtpmsend, mmap_send_msend, mmap_send_rtp,
    mmap_writev, read_send_rtp, read_write, rtp_sendfile, rtpsendfile, sendfilew, uring_send,
};
use crate::request::{BlockRequest, TrainRequest};
use crate::serving::{
    gso_writev, krtpsendfile, loan, mmap_send, mmap_zerocopy, read_writev, sendfile, sendmmsg, wire_sendfile,
    wire_uring,
};
use crate::{
    BlockPath, BlockSink, DataPath, Extent, Headers, MappedFile, SendContext, SendError, SendOutcome, Train,
    UdpSink,
};

/// The data path that a train really leaves by: [`DataPath::for_train`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainPath(DataPath);

impl DataPath {
    /// The path that really sends a train with such headers from such a file. Stored headers cannot be
    /// changed by paths that send ready packets, nor can a packet's head be left out; and `wire_uring` needs
    /// the file's copy in the ring of `context`.
    #[inline]
    pub fn for_train(
        self,
        train: &Train,
        headers: Headers,
        file: &MappedFile,
        context: &SendContext,
    ) -> TrainPath {
        TrainPath(match self {
            DataPath::WireUring | DataPath::WireSendfile if headers != Headers::Stored || train.skip > 0 => {
                DataPath::GsoWritev
            }
            DataPath::WireUring if !context.has_registered(file, train.extent()) => DataPath::WireSendfile,
            path => path,
        })
    }

    /// Sends the train or its first packets; answers how many. Never blocks, allocates nothing.
    ///
    /// # Errors
    /// [`SendError`] says what to do about each; none of the packets was sent.
    #[inline]
    pub fn send(
        self,
        sink: &UdpSink,
        file: &MappedFile,
        train: &Train,
        headers: Headers,
        context: &mut SendContext,
    ) -> Result<u32, SendError> {
        let path = self.for_train(train, headers, file, context);
        path.send(&mut TrainRequest { sink, file, train: *train, headers, context })
    }

    /// As `send`, but a train whose path can queue is only queued: see [`TrainPath::enqueue`].
    #[inline]
    pub fn enqueue(
        self,
        sink: &UdpSink,
        file: &MappedFile,
        train: &Train,
        headers: Headers,
        context: &mut SendContext,
        token: u64,
    ) -> Result<SendOutcome<u32>, SendError> {
        let path = self.for_train(train, headers, file, context);
        path.enqueue(sink, file, train, headers, context, token)
    }
}

impl TrainPath {
    /// The path.
    pub fn path(self) -> DataPath {
        self.0
    }

    /// Sends the train or its first packets, or queues all of it if the path can. What is queued is answered
    /// with `token` (any number but `u64::MAX`) by [`SendContext::flush`], which sends all that is queued in
    /// one call; the answer is for all of the train or none of it. Train, headers, file and context are those
    /// that the path was chosen for.
    ///
    /// # Errors
    /// As [`DataPath::send`]; [`SendError::Full`] also if the queue has no room before the next flush.
    #[inline]
    pub fn enqueue(
        self,
        sink: &UdpSink,
        file: &MappedFile,
        train: &Train,
        headers: Headers,
        context: &mut SendContext,
        token: u64,
    ) -> Result<SendOutcome<u32>, SendError> {
        let mut request = TrainRequest { sink, file, train: *train, headers, context };
        match self.0 {
            DataPath::WireUring => wire_uring::enqueue(&mut request, token).map(|()| SendOutcome::Queued),
            _ => self.send(&mut request).map(SendOutcome::Sent),
        }
    }

    #[inline]
    fn send(self, request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
        match self.0 {
            DataPath::WireUring => wire_uring::send(request),
            DataPath::WireSendfile => wire_sendfile::send(request),
            DataPath::GsoWritev => gso_writev::send(request),
            DataPath::GsoZerocopy => gso_zerocopy::send(request),
            DataPath::Sendmmsg => sendmmsg::send(request),
            DataPath::MmapWritev => mmap_writev::send(request),
            DataPath::ReadSendRtp => read_send_rtp::send(request),
            DataPath::ReadWritev => read_writev::send(request),
            DataPath::MmapSendRtp => mmap_send_rtp::send(request),
            DataPath::RtpSendfile => rtp_sendfile::send(request),
            DataPath::Krtpsendfile => krtpsendfile::send(request),
            DataPath::Krtpmsend => krtpmsend::send(request),
            DataPath::Sendfilew => sendfilew::send(request),
            DataPath::Rtpsendfile => rtpsendfile::send(request),
            DataPath::MmapRtpmsend => mmap_rtpmsend::send(request),
            DataPath::MmapSendMsend => mmap_send_msend::send(request),
        }
    }
}

impl BlockPath {
    /// Sends the extent: to a UDP socket as one datagram (or train) or not at all, or, if the path takes
    /// runs, its first datagrams; to a TCP connection as much of it as is taken now. Answers how many bytes,
    /// at least one. Never blocks, allocates nothing.
    ///
    /// # Errors
    /// [`SendError`] says what to do about each; nothing was sent.
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

    /// As `send`, but a datagram or train whose path can queue is only queued, and answered with `token` (any
    /// number but `u64::MAX`) by [`SendContext::flush`]. A stream's bytes are always sent at once: how many
    /// it took decides what comes next.
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
            BlockPath::Sendfile => sendfile::send(request),
            BlockPath::MmapSend => mmap_send::send(request),
            BlockPath::ReadWrite => read_write::send(request),
            BlockPath::Ksendfile => ksendfile::send(request),
            BlockPath::Kmsend => kmsend::send(request),
            BlockPath::MmapMsend => mmap_msend::send(request),
        }
    }
}
