//! Data paths for trains, by name: what each needs and what it can do.

use std::fmt;
use std::str::FromStr;

/// A way to take trains from storage to a UDP socket: those of an unmodified kernel, cheapest first, then the
/// papers' enhanced calls, which need the kernel module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataPath {
    /// Ready packets from registered memory by an io_uring and UDP_SEGMENT: many trains in a call, no copy,
    /// headers as stored.
    WireUring,
    /// Ready packets by `sendfile` and UDP_SEGMENT: a call per train, no copy, headers as stored.
    WireSendfile,
    /// Headers and mapping by `sendmsg` and UDP_SEGMENT: a call per train, one copy.
    GsoWritev,
    /// Some headers and payloads by `sendmsg`, UDP_SEGMENT and MSG_ZEROCOPY: a call for 7 or 8 packets, no
    /// copy, pages are lent.
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

impl DataPath {
    /// All of them, in this order.
    pub const ALL: [DataPath; 16] = [
        DataPath::WireUring,
        DataPath::WireSendfile,
        DataPath::GsoWritev,
        DataPath::GsoZerocopy,
        DataPath::Sendmmsg,
        DataPath::MmapWritev,
        DataPath::ReadSendRtp,
        DataPath::ReadWritev,
        DataPath::MmapSendRtp,
        DataPath::RtpSendfile,
        DataPath::Krtpsendfile,
        DataPath::Krtpmsend,
        DataPath::Sendfilew,
        DataPath::Rtpsendfile,
        DataPath::MmapRtpmsend,
        DataPath::MmapSendMsend,
    ];

    /// Those that a server's choice is made from, cheapest first; the others are there to be measured and to
    /// be asked for.
    pub const SERVING: [DataPath; 5] = [
        DataPath::WireUring,
        DataPath::WireSendfile,
        DataPath::GsoWritev,
        DataPath::Sendmmsg,
        DataPath::ReadWritev,
    ];

    /// Those that packets with headers of a session's own (after a seek) leave by where the headers are
    /// stored else, most preferred first.
    pub const OWN_HEADERS: [DataPath; 2] = [DataPath::GsoWritev, DataPath::Krtpsendfile];

    /// The name used in options, output and documentation.
    pub fn name(self) -> &'static str {
        match self {
            DataPath::WireUring => "wire_uring",
            DataPath::WireSendfile => "wire_sendfile",
            DataPath::GsoWritev => "gso_writev",
            DataPath::GsoZerocopy => "gso_zerocopy",
            DataPath::Sendmmsg => "sendmmsg",
            DataPath::MmapWritev => "mmap_writev",
            DataPath::ReadSendRtp => "read_send_rtp",
            DataPath::ReadWritev => "read_writev",
            DataPath::MmapSendRtp => "mmap_send_rtp",
            DataPath::RtpSendfile => "rtp_sendfile",
            DataPath::Krtpsendfile => "krtpsendfile",
            DataPath::Krtpmsend => "krtpmsend",
            DataPath::Sendfilew => "sendfilew",
            DataPath::Rtpsendfile => "rtpsendfile",
            DataPath::MmapRtpmsend => "mmap_rtpmsend",
            DataPath::MmapSendMsend => "mmap_send_msend",
        }
    }

    /// Returns whether it needs UDP_SEGMENT on the socket, and so packets that fit the MTU.
    pub fn segments(self) -> bool {
        matches!(
            self,
            DataPath::WireUring | DataPath::WireSendfile | DataPath::GsoWritev | DataPath::GsoZerocopy
        )
    }

    /// Returns whether what it sends may be cut by the kernel or the device as UDP segments, also of one
    /// packet.
    pub fn sends_trains(self) -> bool {
        self.segments() || self.segments_if_fitting() || self.takes_runs() || self == DataPath::Sendfilew
    }

    /// Returns whether it sets UDP_SEGMENT for the sake of its checksums alone, where packets fit the MTU.
    pub(crate) fn segments_if_fitting(self) -> bool {
        matches!(self, DataPath::RtpSendfile | DataPath::MmapSendMsend)
    }

    /// Returns whether one call takes several packets.
    pub fn batches(self) -> bool {
        self.segments() || self.takes_runs() || matches!(self, DataPath::Sendmmsg | DataPath::Sendfilew)
    }

    /// Returns whether one call takes any number of packets, so that a train can be as long as a file. The
    /// kernel cuts such a run into trains of its own.
    pub fn takes_runs(self) -> bool {
        matches!(self, DataPath::Krtpsendfile | DataPath::Krtpmsend)
    }

    /// Returns whether it needs the kernel module: [`crate::SendContext::open_module`].
    pub fn needs_module(self) -> bool {
        self.takes_runs()
            || matches!(
                self,
                DataPath::Sendfilew
                    | DataPath::Rtpsendfile
                    | DataPath::MmapRtpmsend
                    | DataPath::MmapSendMsend
            )
    }

    /// Returns whether it lends pages to the kernel, which the sink then counts: [`crate::UdpSink::loans`].
    pub fn lends(self) -> bool {
        self == DataPath::GsoZerocopy
    }

    /// Returns whether it can put headers of its own in front of payload; the others send packets as they are
    /// stored.
    pub fn makes_headers(self) -> bool {
        !matches!(self, DataPath::WireUring | DataPath::WireSendfile)
    }

    /// Returns whether it needs a copy of the file in memory that is registered with the thread's ring.
    /// Without one, trains leave by the next path.
    pub fn needs_hot_memory(self) -> bool {
        self == DataPath::WireUring
    }

    /// Returns whether payload is sent by reference, which pays only where the device computes checksums.
    pub(crate) fn refers_to_pages(self) -> bool {
        matches!(self, DataPath::WireUring | DataPath::WireSendfile)
    }

    /// The path to step down to when a route cannot do this one. Those that send trains fail for the same
    /// reasons, but `wire_uring` may be refused by a protocol alone, and `gso_zerocopy` by a kernel that was
    /// told to use fewer fragments.
    pub fn next(self) -> Option<DataPath> {
        match self {
            DataPath::WireUring => Some(DataPath::WireSendfile),
            DataPath::WireSendfile | DataPath::GsoWritev => Some(DataPath::Sendmmsg),
            DataPath::GsoZerocopy => Some(DataPath::GsoWritev),
            DataPath::RtpSendfile | DataPath::MmapSendMsend => Some(DataPath::MmapSendRtp),
            DataPath::Krtpsendfile | DataPath::Krtpmsend | DataPath::Sendfilew => Some(DataPath::GsoWritev),
            DataPath::Rtpsendfile | DataPath::MmapRtpmsend => Some(DataPath::MmapWritev),
            DataPath::Sendmmsg | DataPath::MmapWritev | DataPath::MmapSendRtp => Some(DataPath::ReadWritev),
            DataPath::ReadSendRtp | DataPath::ReadWritev => None,
        }
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that is no data path's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown data path {0:?}: expected {names}", names = DataPath::ALL.map(DataPath::name).join(", "))]
pub struct UnknownDataPath(String);

impl FromStr for DataPath {
    type Err = UnknownDataPath;

    fn from_str(name: &str) -> Result<DataPath, UnknownDataPath> {
        DataPath::ALL
            .into_iter()
            .find(|path| path.name() == name)
            .ok_or_else(|| UnknownDataPath(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for path in DataPath::ALL {
            assert_eq!(path.name().parse(), Ok(path));
        }
        assert!("fastest".parse::<DataPath>().unwrap_err().to_string().contains("wire_sendfile"));
    }
}
