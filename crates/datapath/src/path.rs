//! The ways to send a train, by name.

use std::fmt;
use std::str::FromStr;

use crate::{Headers, Medium, Scratch, SendError, Taken, Train, UdpSink};
use crate::{
    gso_writev, gso_zerocopy, krtpmsend, krtpsendfile, mmap_rtpmsend, mmap_send_msend, mmap_send_rtp,
};
use crate::{mmap_writev, read_send_rtp, read_writev, rtp_sendfile, rtpsendfile, sendfilew, sendmmsg};
use crate::{wire_sendfile, wire_uring};

/// A way to take trains from storage to a UDP socket: those of an unmodified kernel, cheapest first, then the papers' enhanced calls,
/// which need the kernel module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Ready packets from registered memory by an io_uring and UDP_SEGMENT: many trains in a call, no copy, headers as stored.
    WireUring,
    /// Ready packets by `sendfile` and UDP_SEGMENT: a call per train, no copy, headers as stored.
    WireSendfile,
    /// Headers and mapping by `sendmsg` and UDP_SEGMENT: a call per train, one copy.
    GsoWritev,
    /// Some headers and payloads by `sendmsg`, UDP_SEGMENT and MSG_ZEROCOPY: a call for 7 or 8 packets, no copy, pages are
    /// lent.
    GsoZerocopy,
    /// Headers and mapping by `sendmmsg`: a call per train, one copy, the network stack paid for each packet.
    Sendmmsg,
    /// Header and mapping by `sendmsg` for each packet: a call, one copy.
    MmapWritev,
    /// `pread` behind the header and `send` for each packet: two calls, two copies.
    ReadSendRtp,
    /// `pread` and `writev` for each packet: two calls, two copies, works everywhere.
    ReadWritev,
    /// Header and mapping by a `send` each for each packet: two calls, one copy.
    MmapSendRtp,
    /// Header by `send` and payload by `sendfile` for each packet: two calls, no copy.
    RtpSendfile,
    /// Headers by the kernel's RTP engine, payload from the file: a call for any number of packets, no copy.
    Krtpsendfile,
    /// The same from a mapping.
    Krtpmsend,
    /// Headers and payload as a vector of memory and ranges of the file: a call per train, no copy.
    Sendfilew,
    /// Header and payload from the file for each packet: a call, no copy. (`rtp_sendfile` is another path.)
    Rtpsendfile,
    /// Header and payload from a mapping for each packet: a call, no copy.
    MmapRtpmsend,
    /// Header by `send` and payload from a mapping by the module for each packet: two calls, one copy.
    MmapSendMsend,
}

impl Path {
    /// All of them, in this order.
    pub const ALL: [Path; 16] = [
        Path::WireUring,
        Path::WireSendfile,
        Path::GsoWritev,
        Path::GsoZerocopy,
        Path::Sendmmsg,
        Path::MmapWritev,
        Path::ReadSendRtp,
        Path::ReadWritev,
        Path::MmapSendRtp,
        Path::RtpSendfile,
        Path::Krtpsendfile,
        Path::Krtpmsend,
        Path::Sendfilew,
        Path::Rtpsendfile,
        Path::MmapRtpmsend,
        Path::MmapSendMsend,
    ];

    /// Those that a server's choice is made from, cheapest first; the others are there to be measured and to be asked for.
    pub const SERVING: [Path; 5] =
        [Path::WireUring, Path::WireSendfile, Path::GsoWritev, Path::Sendmmsg, Path::ReadWritev];

    /// Those that packets with headers of a session's own (after a seek) leave by where the headers are stored else, most preferred
    /// first.
    pub const OWN_HEADERS: [Path; 2] = [Path::GsoWritev, Path::Krtpsendfile];

    /// The name used in options, output and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Path::WireUring => "wire_uring",
            Path::WireSendfile => "wire_sendfile",
            Path::GsoWritev => "gso_writev",
            Path::GsoZerocopy => "gso_zerocopy",
            Path::Sendmmsg => "sendmmsg",
            Path::MmapWritev => "mmap_writev",
            Path::ReadSendRtp => "read_send_rtp",
            Path::ReadWritev => "read_writev",
            Path::MmapSendRtp => "mmap_send_rtp",
            Path::RtpSendfile => "rtp_sendfile",
            Path::Krtpsendfile => "krtpsendfile",
            Path::Krtpmsend => "krtpmsend",
            Path::Sendfilew => "sendfilew",
            Path::Rtpsendfile => "rtpsendfile",
            Path::MmapRtpmsend => "mmap_rtpmsend",
            Path::MmapSendMsend => "mmap_send_msend",
        }
    }

    /// Whether it needs UDP_SEGMENT on the socket, and so packets that fit the MTU.
    pub fn segments(self) -> bool {
        matches!(self, Path::WireUring | Path::WireSendfile | Path::GsoWritev | Path::GsoZerocopy)
    }

    /// Whether what it sends may be cut by the kernel or the device as UDP segments, also of one packet.
    pub fn sends_trains(self) -> bool {
        self.segments() || self.segments_if_fitting() || self.takes_runs() || self == Path::Sendfilew
    }

    /// Whether it sets UDP_SEGMENT for the sake of its checksums alone, where packets fit the MTU.
    pub(crate) fn segments_if_fitting(self) -> bool {
        matches!(self, Path::RtpSendfile | Path::MmapSendMsend)
    }

    /// Whether one call takes several packets.
    pub fn batches(self) -> bool {
        self.segments() || self.takes_runs() || matches!(self, Path::Sendmmsg | Path::Sendfilew)
    }

    /// Whether one call takes any number of packets, so that a train can be as long as a file. The kernel cuts such a run into
    /// trains of its own.
    pub fn takes_runs(self) -> bool {
        matches!(self, Path::Krtpsendfile | Path::Krtpmsend)
    }

    /// Whether it needs the kernel module: [`Scratch::open_module`].
    pub fn needs_module(self) -> bool {
        self.takes_runs()
            || matches!(self, Path::Sendfilew | Path::Rtpsendfile | Path::MmapRtpmsend | Path::MmapSendMsend)
    }

    /// Whether it lends pages to the kernel, which the sink then counts: [`UdpSink::loans`].
    pub fn lends(self) -> bool {
        self == Path::GsoZerocopy
    }

    /// Whether it can put headers of its own in front of payload; the others send packets as they are stored.
    pub fn makes_headers(self) -> bool {
        !matches!(self, Path::WireUring | Path::WireSendfile)
    }

    /// Whether it needs a copy of the medium in memory that the thread's ring holds. Without one, trains leave by the next path.
    pub fn needs_hot_memory(self) -> bool {
        self == Path::WireUring
    }

    /// Whether payload is sent by reference, which pays only where the device computes checksums.
    pub(crate) fn refers_to_pages(self) -> bool {
        matches!(self, Path::WireUring | Path::WireSendfile)
    }

    /// The path to step down to when a route cannot do this one. Those that send trains fail for the same reasons, but
    /// `wire_uring` may be refused by a protocol alone, and `gso_zerocopy` by a kernel that was told to use fewer fragments.
    pub fn next(self) -> Option<Path> {
        match self {
            Path::WireUring => Some(Path::WireSendfile),
            Path::WireSendfile | Path::GsoWritev => Some(Path::Sendmmsg),
            Path::GsoZerocopy => Some(Path::GsoWritev),
            Path::RtpSendfile | Path::MmapSendMsend => Some(Path::MmapSendRtp),
            Path::Krtpsendfile | Path::Krtpmsend | Path::Sendfilew => Some(Path::GsoWritev),
            Path::Rtpsendfile | Path::MmapRtpmsend => Some(Path::MmapWritev),
            Path::Sendmmsg | Path::MmapWritev | Path::MmapSendRtp => Some(Path::ReadWritev),
            Path::ReadSendRtp | Path::ReadWritev => None,
        }
    }

    /// The path that really sends a train with such headers from such a medium: stored headers cannot be changed by those that
    /// send ready packets, nor can a packet's head be left out; and `wire_uring` needs the medium's copy in the ring of
    /// `scratch`.
    #[inline]
    pub fn for_train(self, train: &Train, headers: Headers, medium: &Medium, scratch: &Scratch) -> Path {
        match self {
            Path::WireUring | Path::WireSendfile if headers != Headers::Stored || train.skip > 0 => {
                Path::GsoWritev
            }
            Path::WireUring if !scratch.holds(medium, train.extent()) => Path::WireSendfile,
            path => path,
        }
    }

    /// Sends the train or its first packets; answers how many. Never blocks, allocates nothing.
    ///
    /// # Errors
    /// [`SendError`] says what to do about each; none of the packets was sent.
    #[inline]
    pub fn send(
        self,
        sink: &UdpSink,
        medium: &Medium,
        train: &Train,
        headers: Headers,
        scratch: &mut Scratch,
    ) -> Result<u32, SendError> {
        self.for_train(train, headers, medium, scratch).send_as_is(sink, medium, train, headers, scratch)
    }

    /// As `send`, but a train whose path can queue is only queued, and answered with `token` (any number but `u64::MAX`) by
    /// [`Scratch::flush`], which sends all that is queued in one call. The answer is for all of the train or none of it.
    ///
    /// # Errors
    /// As `send`; [`SendError::Full`] also if the queue has no room before the next flush.
    #[inline]
    pub fn enqueue(
        self,
        sink: &UdpSink,
        medium: &Medium,
        train: &Train,
        headers: Headers,
        scratch: &mut Scratch,
        token: u64,
    ) -> Result<Taken<u32>, SendError> {
        match self.for_train(train, headers, medium, scratch) {
            Path::WireUring => {
                wire_uring::enqueue(sink, medium, train, scratch, token).map(|()| Taken::Queued)
            }
            path => path.send_as_is(sink, medium, train, headers, scratch).map(Taken::Sent),
        }
    }

    /// Sends by this path, which can send this train.
    #[inline]
    fn send_as_is(
        self,
        sink: &UdpSink,
        medium: &Medium,
        train: &Train,
        headers: Headers,
        scratch: &mut Scratch,
    ) -> Result<u32, SendError> {
        match self {
            Path::WireUring => wire_uring::send(sink, medium, train, scratch),
            Path::WireSendfile => wire_sendfile::send(sink, medium, train, scratch),
            Path::GsoWritev => gso_writev::send(sink, medium, train, headers, scratch),
            Path::GsoZerocopy => gso_zerocopy::send(sink, medium, train, headers, scratch),
            Path::Sendmmsg => sendmmsg::send(sink, medium, train, headers, scratch),
            Path::MmapWritev => mmap_writev::send(sink, medium, train, headers, scratch),
            Path::ReadSendRtp => read_send_rtp::send(sink, medium, train, headers, scratch),
            Path::ReadWritev => read_writev::send(sink, medium, train, headers, scratch),
            Path::MmapSendRtp => mmap_send_rtp::send(sink, medium, train, headers, scratch),
            Path::RtpSendfile => rtp_sendfile::send(sink, medium, train, headers, scratch),
            Path::Krtpsendfile => krtpsendfile::send(sink, medium, train, headers, scratch),
            Path::Krtpmsend => krtpmsend::send(sink, medium, train, headers, scratch),
            Path::Sendfilew => sendfilew::send(sink, medium, train, headers, scratch),
            Path::Rtpsendfile => rtpsendfile::send(sink, medium, train, headers, scratch),
            Path::MmapRtpmsend => mmap_rtpmsend::send(sink, medium, train, headers, scratch),
            Path::MmapSendMsend => mmap_send_msend::send(sink, medium, train, headers, scratch),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that is no data path's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no data path is called {0:?}; there are {names}", names = Path::ALL.map(Path::name).join(", "))]
pub struct UnknownPath(String);

impl FromStr for Path {
    type Err = UnknownPath;

    fn from_str(name: &str) -> Result<Path, UnknownPath> {
        Path::ALL.into_iter().find(|path| path.name() == name).ok_or_else(|| UnknownPath(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for path in Path::ALL {
            assert_eq!(path.name().parse(), Ok(path));
        }
        assert!("fastest".parse::<Path>().unwrap_err().to_string().contains("wire_sendfile"));
    }
}
