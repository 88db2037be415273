//! What is measured: one data path with one size over one transport.

use wirepath_datapath::rtp::HEADER_LENGTH;
use wirepath_datapath::{BlockPath, DataPath, Headers, LoanPolicy, Train};

use crate::media::{Kind, RUN};
use crate::result::Transport;
use crate::walk::{Stretch, Walk};

/// Packets handed to a path at a time, as the server does; how many of them leave in one call is the path's own affair.
pub(crate) const TRAIN_PACKETS: u32 = 48;

/// Most bytes of a UDP datagram, and so of a train (IPv4).
const MOST_BYTES: u32 = 65_507;

/// Behind the name of a path that takes runs, where their packets are measured by themselves.
pub(crate) const SINGLE: &str = ":single";

/// A data path of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Packets with RTP headers.
    Stream(DataPath),
    /// Bytes of a file.
    Block(BlockPath),
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Stream(path) => path.name(),
            Way::Block(path) => path.name(),
        }
    }

    /// Whether it sends trains that are cut by UDP_SEGMENT, whose packets the network cannot fragment.
    pub(crate) fn segments(self) -> bool {
        match self {
            Way::Stream(path) => path.segments() && path.batches(),
            Way::Block(path) => path.segments(),
        }
    }

    /// Whether what it sends is cut by the kernel or the device, if only for the sake of its checksums.
    pub(crate) fn sends_trains(self) -> bool {
        match self {
            Way::Stream(path) => path.sends_trains(),
            Way::Block(path) => path.segments() || path.takes_runs(),
        }
    }

    /// Whether it lends pages to the kernel.
    pub(crate) fn lends(self) -> bool {
        match self {
            Way::Stream(path) => path.lends(),
            Way::Block(path) => path.lends(),
        }
    }

    /// Whether it sends from memory that a ring holds.
    pub(crate) fn needs_hot_memory(self) -> bool {
        match self {
            Way::Stream(path) => path.needs_hot_memory(),
            Way::Block(path) => path.needs_hot_memory(),
        }
    }

    /// Whether it needs the kernel module.
    pub(crate) fn needs_module(self) -> bool {
        match self {
            Way::Stream(path) => path.needs_module(),
            Way::Block(path) => path.needs_module(),
        }
    }

    /// Whether one call takes any number of packets, so that a file is sent by one.
    pub(crate) fn takes_runs(self) -> bool {
        match self {
            Way::Stream(path) => path.takes_runs(),
            Way::Block(path) => path.takes_runs(),
        }
    }

    /// Kernel calls for each packet or block by the papers, which have no figure for paths of today.
    pub(crate) fn calls_in_papers(self, transport: Transport, size: Option<u16>) -> Option<u32> {
        match self {
            Way::Stream(path) => path.calls_in_papers(),
            Way::Block(path) => path.calls_in_papers(transport == Transport::Tcp, size.is_none()),
        }
    }

    /// Whether one call takes several packets.
    pub(crate) fn batches(self) -> bool {
        match self {
            Way::Stream(path) => path.batches(),
            Way::Block(path) => path.segments() || path.takes_runs(),
        }
    }
}

/// A way, a transport and a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) way: Way,
    pub(crate) transport: Transport,
    /// Payload bytes of a packet or block; nothing for the whole file.
    pub(crate) size: Option<u16>,
    /// What the path `loan` decides by; of no concern to the others.
    pub(crate) loans: LoanPolicy,
    /// Whether a run by the kernel module leaves in packets by themselves, and not as trains.
    pub(crate) single: bool,
}

impl Cell {
    /// One whose loans nobody has measured.
    pub(crate) fn new(way: Way, transport: Transport, size: Option<u16>) -> Cell {
        Cell { way, transport, size, loans: LoanPolicy::default(), single: false }
    }

    /// The path's name, which says so if its packets leave by themselves.
    pub(crate) fn name(&self) -> String {
        format!("{}{}", self.way.name(), if self.single { SINGLE } else { "" })
    }

    /// Bytes of a datagram's payload, RTP header included.
    pub(crate) fn packet_size(&self) -> u16 {
        let header = if matches!(self.way, Way::Stream(_)) { HEADER_LENGTH as u16 } else { 0 };
        self.size.unwrap_or(u16::MAX - header) + header
    }

    /// Whether the network has to fragment its datagrams, where a packet has room for so much payload of UDP.
    pub(crate) fn is_fragmented(&self, udp_room: u32) -> bool {
        self.transport == Transport::Udp && u32::from(self.packet_size()) > udp_room
    }

    /// Whether the route can do it: what segments is not fragmented.
    pub(crate) fn is_possible(&self, udp_room: u32) -> bool {
        !(self.way.segments() && self.is_fragmented(udp_room))
            && self.size.is_none_or(|_| u32::from(self.packet_size()) <= MOST_BYTES)
    }

    /// Packets to hand to the path at a time.
    pub(crate) fn train_packets(&self) -> u32 {
        match (self.way, self.transport) {
            // As many as the length of a train can say.
            (way, _) if way.takes_runs() => u32::MAX / u32::from(self.packet_size()),
            (Way::Block(path), _) if !path.segments() => 1,
            (_, Transport::Tcp) => 1,
            _ => self.a_train(),
        }
    }

    /// The same where a receiver has to have room for all of them: no run is longer than a train.
    pub(crate) fn train_packets_received(&self) -> u32 {
        self.train_packets().min(self.a_train())
    }

    fn a_train(&self) -> u32 {
        TRAIN_PACKETS.min(MOST_BYTES / u32::from(self.packet_size())).max(1)
    }

    /// The file that it sends: paths that cannot make headers send packets that are ready.
    pub(crate) fn kind(&self) -> Kind {
        match (self.way, self.size) {
            (Way::Stream(_), Some(size)) if self.headers() == Headers::Stored => Kind::Ready(size),
            _ => Kind::Payload,
        }
    }

    /// Where its headers come from: made for each packet if the path can.
    pub(crate) fn headers(&self) -> Headers {
        match self.way {
            Way::Stream(path) if !path.makes_headers() => Headers::Stored,
            _ => Headers::Generated,
        }
    }

    /// A stretch of payload as a train of packets in a file with such headers that begins at `start`.
    #[inline]
    pub(crate) fn train(&self, stretch: Stretch, start: u64, headers: Headers) -> Train {
        let header = if headers == Headers::Generated { 0 } else { HEADER_LENGTH as u64 };
        let packet = u64::from(self.size.unwrap_or(1)) + header;
        Train {
            offset: start + stretch.first * packet,
            length: (stretch.bytes + stretch.packets * header) as u32,
            packet_size: packet as u16,
            skip: 0,
            first: stretch.first as u32,
            run: RUN,
        }
    }

    /// The packets of so many bytes of a file of this length.
    pub(crate) fn walk(&self, file: u64, volume: u64) -> Walk {
        Walk::new(file, self.size.map_or(file, u64::from), volume)
    }

    /// For people: `wire_sendfile, 1460 bytes, UDP`.
    pub(crate) fn label(&self) -> String {
        let size = self.size.map_or("the whole file".to_owned(), |size| format!("{size} bytes"));
        let transport = if self.transport == Transport::Udp { "UDP" } else { "TCP" };
        format!("{}, {size}, {transport}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(path: DataPath, size: u16) -> Cell {
        Cell::new(Way::Stream(path), Transport::Udp, Some(size))
    }

    #[test]
    fn paths_that_cannot_make_headers_send_ready_packets() {
        assert_eq!(stream(DataPath::WireSendfile, 1460).kind(), Kind::Ready(1460));
        assert_eq!(stream(DataPath::GsoWritev, 1460).kind(), Kind::Payload);
    }

    #[test]
    fn trains_fit_a_datagram() {
        assert_eq!(stream(DataPath::GsoWritev, 512).train_packets(), 48);
        assert_eq!(stream(DataPath::GsoWritev, 8960).train_packets(), 7);
        assert_eq!(stream(DataPath::GsoWritev, 60_000).train_packets(), 1);
        assert!(u64::from(stream(DataPath::Krtpsendfile, 1460).train_packets()) * 1460 > 4_000_000_000);
    }

    #[test]
    fn an_mtu_sized_packet_is_the_largest_that_is_not_fragmented() {
        assert!(!stream(DataPath::GsoWritev, 1460).is_fragmented(1472));
        assert!(stream(DataPath::GsoWritev, 1461).is_fragmented(1472));
    }
}
