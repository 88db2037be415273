//! Data paths for trains, by name, with their requirements and abilities.

use crate::names::paths;

paths! {
    /// Data path for trains, from storage to a UDP socket: those of an unmodified kernel, cheapest first,
    /// then the papers' enhanced calls, which need the kernel module. [`crate::BlockPath`] is for blocks.
    DataPath {
        /// Ready packets from registered memory by an io_uring and UDP_SEGMENT: many trains in a call, no
        /// copy.
        WireUring = "wire_uring",
        /// Ready packets from the file's mapping by an io_uring and UDP_SEGMENT: many trains in a call, no copy.
        WireMapping = "wire_mapping",
        /// Ready packets by `sendfile` and UDP_SEGMENT: a call per train, no copy.
        WireSendfile = "wire_sendfile",
        /// Headers and mapping by `sendmsg` and UDP_SEGMENT: a call per train, one copy.
        GsoWritev = "gso_writev",
        /// Headers and mapping by `sendmsg`, UDP_SEGMENT and MSG_ZEROCOPY: a call for 7 or 8 packets, no
        /// copy.
        GsoZerocopy = "gso_zerocopy",
        /// Headers and mapping by `sendmmsg`: a call per train, one copy, full network stack for each packet.
        Sendmmsg = "sendmmsg",
        /// Header and mapping by `sendmsg` for each packet: a call, one copy.
        MmapWritev = "mmap_writev",
        /// `pread` behind the header and `send` for each packet: two calls, two copies.
        ReadSendRtp = "read_send_rtp",
        /// `pread` and `writev` for each packet: two calls, two copies, works everywhere.
        ReadWritev = "read_writev",
        /// Header and mapping by a `send` each for each packet: two calls, one copy.
        MmapSendRtp = "mmap_send_rtp",
        /// Header by `send` and payload by `sendfile` for each packet: two calls, no copy.
        RtpSendfile = "rtp_sendfile",
        /// Headers by the kernel's RTP engine, payload from the file: a call for a run of packets, no copy.
        Krtpsendfile = "krtpsendfile",
        /// The same from a mapping.
        Krtpmsend = "krtpmsend",
        /// Headers and payload as a vector of memory and ranges of the file: a call per train, no copy.
        Sendfilew = "sendfilew",
        /// Header and payload from the file for each packet: a call, no copy.
        Rtpsendfile = "rtpsendfile",
        /// Header and payload from a mapping for each packet: a call, no copy.
        MmapRtpmsend = "mmap_rtpmsend",
        /// Header by `send` and payload from a mapping by the module for each packet: two calls, one copy.
        MmapSendMsend = "mmap_send_msend",
    }
}

impl DataPath {
    /// Paths that a server chooses from, cheapest first; the others only serve if the operator asks.
    pub const SERVING: [Self; 6] = [
        Self::WireUring,
        Self::WireMapping,
        Self::WireSendfile,
        Self::GsoWritev,
        Self::Sendmmsg,
        Self::ReadWritev,
    ];

    /// Paths for packets with headers of a session's own (after a seek), most preferred first.
    pub const OWN_HEADERS: [Self; 2] = [Self::GsoWritev, Self::Krtpsendfile];

    /// Paths of the papers that also send frames of a connection, packet by packet, in the order of the papers'
    /// table 2: [`crate::interleaved::FrameTrain::send_by`].
    pub const FRAMED: [Self; 5] =
        [Self::ReadSendRtp, Self::ReadWritev, Self::MmapSendRtp, Self::MmapWritev, Self::RtpSendfile];

    /// Returns whether it needs UDP_SEGMENT on the socket, and so packets that fit the MTU.
    pub fn segments(self) -> bool {
        self.needs_ring() || matches!(self, Self::WireSendfile | Self::GsoWritev | Self::GsoZerocopy)
    }

    /// Returns whether the kernel or the device may cut its trains, including trains of one packet, as UDP
    /// segments.
    pub fn sends_trains(self) -> bool {
        self.segments() || self.segments_if_fitting() || self.takes_runs() || self == Self::Sendfilew
    }

    /// Returns whether it sets UDP_SEGMENT only for the checksums, if packets fit the MTU.
    pub(crate) fn segments_if_fitting(self) -> bool {
        matches!(self, Self::RtpSendfile | Self::MmapSendMsend)
    }

    /// Returns whether one call sends several packets.
    pub fn batches(self) -> bool {
        self.segments() || self.takes_runs() || matches!(self, Self::Sendmmsg | Self::Sendfilew)
    }

    /// Returns whether one call sends any number of packets, so that a train can be as long as a file. The
    /// kernel cuts such a run into trains of its own.
    pub fn takes_runs(self) -> bool {
        matches!(self, Self::Krtpsendfile | Self::Krtpmsend)
    }

    /// Returns whether it needs the kernel module: [`crate::SendContext::open_module`].
    pub fn needs_module(self) -> bool {
        let by_packet = matches!(self, Self::Rtpsendfile | Self::MmapRtpmsend | Self::MmapSendMsend);
        by_packet || self.takes_runs() || self == Self::Sendfilew
    }

    /// Returns whether it lends pages to the kernel, which the sink then counts: [`crate::UdpSink::loans`].
    pub fn lends(self) -> bool {
        self == Self::GsoZerocopy
    }

    /// Returns whether it supports made headers; the others send packets as stored.
    pub fn makes_headers(self) -> bool {
        !(self.needs_ring() || self == Self::WireSendfile)
    }

    /// Returns whether it needs an io_uring of the thread: [`crate::SendContext::open_ring`]. Without it, trains
    /// are sent by another path. Where the kernel copies what an io_uring sends, as for receivers on this host, it
    /// saves nothing.
    pub fn needs_ring(self) -> bool {
        matches!(self, Self::WireUring | Self::WireMapping)
    }

    /// Returns whether it needs a copy of the file in memory registered with the thread's ring. Without it,
    /// trains are sent by the next path.
    pub fn needs_hot_memory(self) -> bool {
        self == Self::WireUring
    }

    /// Returns whether payload is sent by reference, which pays only on devices with checksum offload.
    pub(crate) fn refers_to_pages(self) -> bool {
        self.needs_ring() || self == Self::WireSendfile
    }

    /// The path that copies the payload, for a socket that is set up for this path: this path if it copies.
    #[inline]
    pub(crate) fn copying(self) -> Self {
        match self {
            Self::GsoWritev
            | Self::Sendmmsg
            | Self::MmapWritev
            | Self::ReadSendRtp
            | Self::ReadWritev
            | Self::MmapSendRtp
            | Self::MmapSendMsend => self,
            path if path.segments() => Self::GsoWritev,
            _ => Self::Sendmmsg,
        }
    }

    /// The path to step down to if a route does not support this one. Paths that send trains fail for the
    /// same reasons; those of an io_uring also depend on the protocol, and `gso_zerocopy` also fails on kernels with
    /// fewer fragments.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::WireUring | Self::WireMapping => Some(Self::WireSendfile),
            Self::WireSendfile | Self::GsoWritev => Some(Self::Sendmmsg),
            Self::GsoZerocopy => Some(Self::GsoWritev),
            Self::RtpSendfile | Self::MmapSendMsend => Some(Self::MmapSendRtp),
            Self::Krtpsendfile | Self::Krtpmsend | Self::Sendfilew => Some(Self::GsoWritev),
            Self::Rtpsendfile | Self::MmapRtpmsend => Some(Self::MmapWritev),
            Self::Sendmmsg | Self::MmapWritev | Self::MmapSendRtp => Some(Self::ReadWritev),
            Self::ReadSendRtp | Self::ReadWritev => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_copies_stands_in_for_each() {
        for path in DataPath::ALL {
            let copying = path.copying();
            assert!(copying.copying() == copying && copying.makes_headers(), "{path}");
            assert!(!copying.lends() && !copying.refers_to_pages(), "{path}");
            assert!(!copying.segments() || path.segments(), "{path}: the socket is not set up for {copying}");
        }
        assert_eq!(DataPath::WireSendfile.copying(), DataPath::GsoWritev);
        assert_eq!(DataPath::Krtpsendfile.copying(), DataPath::Sendmmsg);
    }

    #[test]
    fn names_are_read_back() {
        for path in DataPath::ALL {
            assert_eq!(path.name().parse(), Ok(path));
        }
        assert!("fastest".parse::<DataPath>().unwrap_err().to_string().contains("wire_sendfile"));
    }
}
