//! Sending of trains by a [`DataPath`].

use crate::assessed::{gso_zerocopy, mmap_send_msend, mmap_send_rtp, read_send_rtp, rtp_sendfile, sendfilew};
use crate::request::TrainRequest;
use crate::serving::kernel_module::{self, Source};
use crate::serving::{gso_writev, read_writev, sendmmsg, wire_mapping, wire_sendfile, wire_uring};
use crate::{
    DataPath, Headers, MappedFile, SendContext, SendError, SendOutcome, StoredTrains, Train, UdpSink,
};

/// Actual data path of a train, resolved by [`DataPath::for_train`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedPath(DataPath);

impl DataPath {
    /// The actual path for a train with such headers from such a file. Paths that send ready packets cannot
    /// change stored headers, nor leave out a packet's beginning. `wire_uring` needs the file's copy in the
    /// ring of `context`, and `wire_mapping` a ring. Packets without headers are sent by the paths that gather a
    /// header and a payload, with the header left out.
    #[inline]
    pub fn for_train(
        self,
        train: &Train,
        headers: Headers,
        file: &MappedFile,
        context: &SendContext,
    ) -> ResolvedPath {
        ResolvedPath(match self {
            DataPath::GsoWritev | DataPath::Sendmmsg => self,
            path if !headers.are_sent() => {
                if path.segments() {
                    DataPath::GsoWritev
                } else {
                    DataPath::MmapWritev
                }
            }
            DataPath::WireUring | DataPath::WireMapping | DataPath::WireSendfile
                if headers != Headers::Stored || train.skip > 0 =>
            {
                DataPath::GsoWritev
            }
            DataPath::WireUring if !context.has_registered(file, train.extent()) => DataPath::WireSendfile,
            DataPath::WireMapping if !context.has_ring() => DataPath::WireSendfile,
            path => path,
        })
    }

    /// The path that lends a train of stored packets to the network, if the ring of `context` can send it: from
    /// registered memory, or from the file's mapping if `maps` is set; else this path.
    #[inline]
    pub fn or_lent(self, train: &Train, file: &MappedFile, context: &SendContext, maps: bool) -> DataPath {
        match context.has_registered(file, train.extent()) {
            true => DataPath::WireUring,
            false if maps && context.has_ring() => DataPath::WireMapping,
            false => self,
        }
    }

    /// Sends the train or its first packets; returns how many. Never blocks, allocates nothing.
    ///
    /// # Errors
    ///
    /// [`SendError`]; none of the packets was sent.
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
        path.send(&mut TrainRequest { sink, file, train: *train, behind: &[], headers, context })
    }
}

impl ResolvedPath {
    /// The path.
    pub fn path(self) -> DataPath {
        self.0
    }

    /// The path that copies the train's payload: this path if it copies.
    #[inline]
    pub fn copying(self) -> ResolvedPath {
        ResolvedPath(self.0.copying())
    }

    /// Sends the first train or its first packets, and the trains stored behind it if the path can send them in the
    /// same call; or queues the whole first train if the path supports it.
    /// [`SendContext::flush`] sends everything queued in one call, and returns the result of a queued train
    /// with its `token` (any number except `u64::MAX`), for the whole train or none of it. Train, headers,
    /// file and context must be those for which the path was chosen.
    ///
    /// # Errors
    /// As [`DataPath::send`]; [`SendError::Full`] also if the queue has no room before the next flush.
    #[inline]
    pub fn enqueue(
        self,
        sink: &UdpSink,
        trains: StoredTrains<'_>,
        context: &mut SendContext,
        token: u64,
    ) -> Result<SendOutcome<u32>, SendError> {
        let StoredTrains { file, trains, headers } = trains;
        let Some((train, behind)) = trains.split_first() else { return Ok(SendOutcome::Sent(0)) };
        let mut request = TrainRequest { sink, file, train: *train, behind, headers, context };
        if self.0.needs_ring() {
            sink.fit_segment(train.sent_packet_size(headers), train.packets())?;
        }
        match self.0 {
            DataPath::WireUring => wire_uring::enqueue(&mut request, token).map(|()| SendOutcome::Queued),
            DataPath::WireMapping => wire_mapping::enqueue(&mut request, token).map(|()| SendOutcome::Queued),
            _ => self.send(&mut request).map(SendOutcome::Sent),
        }
    }

    #[inline]
    fn send(self, request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
        if self.0.segments() {
            request.sink.fit_segment(request.train.sent_packet_size(request.headers), request.packets())?;
        }
        match self.0 {
            DataPath::WireUring => wire_uring::send(request),
            DataPath::WireMapping => wire_mapping::send(request),
            DataPath::WireSendfile => wire_sendfile::send(request),
            DataPath::GsoWritev => gso_writev::send(request),
            DataPath::GsoZerocopy => gso_zerocopy::send(request),
            DataPath::Sendmmsg => sendmmsg::send(request),
            DataPath::MmapWritev => gso_writev::send_each(request),
            DataPath::ReadSendRtp => read_send_rtp::send(request),
            DataPath::ReadWritev => read_writev::send(request),
            DataPath::MmapSendRtp => mmap_send_rtp::send(request),
            DataPath::RtpSendfile => rtp_sendfile::send(request),
            DataPath::Krtpsendfile => kernel_module::send_rtp(Source::File, request),
            DataPath::Krtpmsend => kernel_module::send_rtp(Source::Mapping, request),
            DataPath::Sendfilew => sendfilew::send(request),
            DataPath::Rtpsendfile => kernel_module::send_each(Source::File, request),
            DataPath::MmapRtpmsend => kernel_module::send_each(Source::Mapping, request),
            DataPath::MmapSendMsend => mmap_send_msend::send(request),
        }
    }
}
