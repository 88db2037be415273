//! Case: one data path with one size over one transport.

use wirepath_datapath::rtp::{HEADER_LENGTH, Header, PAYLOAD_TYPE_MP2T, Run};
use wirepath_datapath::{Headers, LoanPolicy, Train};

use crate::packetization::{PacketRange, Packetization};
use crate::subject::{PathKind, PathVariant, Transport, Variant};

/// Packets handed to a path at a time, as in the server; the path decides how many of them leave in one call.
pub(crate) const TRAIN_PACKETS: u32 = 48;

/// Largest payload of a UDP datagram, and so of a train or send (IPv4).
pub(crate) const MOST_OF_DATAGRAM: u32 = wirepath_sys::datagrams::MAXIMUM_PAYLOAD as u32;

/// Headers of all sent packets: about 6 Mb/s of MTU-sized packets.
pub(crate) const RUN: Run = Run::new(
    Header {
        padding: false,
        marker: false,
        payload_type: PAYLOAD_TYPE_MP2T,
        sequence: 0xfff0,
        timestamp: 0xffff_0000,
        ssrc: 0x5749_5245,
    },
    176 << 16,
);

/// Content of a file that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// Payload alone.
    Payload,
    /// Packets with this many bytes of payload, each after its header.
    Ready(u16),
}

/// Path in a variant, with a transport and a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) path: PathKind,
    pub(crate) transport: Transport,
    /// Payload bytes of a packet or block; `None` for the whole file.
    pub(crate) size: Option<u16>,
    /// Policy of the path `loan`; ignored by other paths.
    pub(crate) loans: LoanPolicy,
    pub(crate) variant: Variant,
}

impl Case {
    /// Case with the default loan policy.
    pub(crate) fn new(path: PathKind, transport: Transport, size: Option<u16>) -> Case {
        Case { path, transport, size, loans: LoanPolicy::default(), variant: Variant::Plain }
    }

    pub(crate) fn path_variant(&self) -> PathVariant {
        PathVariant { kind: self.path, variant: self.variant }
    }

    /// Returns whether the packets of a run are sent one by one, and not as trains.
    pub(crate) fn is_single(&self) -> bool {
        self.variant == Variant::Single
    }

    /// Bytes of a datagram's payload, RTP header included; without framing.
    pub(crate) fn packet_size(&self) -> u16 {
        let header = if self.path.has_headers() { HEADER_LENGTH as u16 } else { 0 };
        self.size.unwrap_or(u16::MAX - header) + header
    }

    /// Returns whether the network has to fragment the datagrams, if a packet has room for
    /// `udp_payload_limit` bytes of UDP payload.
    pub(crate) fn is_fragmented(&self, udp_payload_limit: u32) -> bool {
        self.transport == Transport::Udp && u32::from(self.packet_size()) > udp_payload_limit
    }

    /// Returns whether the route supports the case: segments cannot be fragmented.
    pub(crate) fn is_possible(&self, udp_payload_limit: u32) -> bool {
        !(self.path.segments() && self.is_fragmented(udp_payload_limit))
            && self.size.is_none_or(|_| u32::from(self.packet_size()) <= MOST_OF_DATAGRAM)
    }

    /// Packets to hand to the path at a time.
    pub(crate) fn train_packets(&self) -> u32 {
        match (self.path, self.transport) {
            // As many as fit into the length field of a train.
            (path, _) if path.takes_runs() => u32::MAX / u32::from(self.packet_size()),
            (PathKind::Block(path), _) if !path.segments() => 1,
            (PathKind::Block(_), Transport::Tcp) => 1,
            _ => self.a_train(),
        }
    }

    /// Packets at a time for a receiver that must have room for all of them: at most a train.
    pub(crate) fn train_packets_received(&self) -> u32 {
        self.train_packets().min(self.a_train())
    }

    fn a_train(&self) -> u32 {
        TRAIN_PACKETS.min(MOST_OF_DATAGRAM / u32::from(self.packet_size())).max(1)
    }

    /// Content of the file to send: paths that cannot make headers send packets with stored headers.
    pub(crate) fn content(&self) -> Content {
        match (self.path, self.size) {
            (PathKind::Stream(_), Some(size)) if self.headers() == Headers::Stored => Content::Ready(size),
            _ => Content::Payload,
        }
    }

    /// Source of the headers: generated for each packet if the path can.
    pub(crate) fn headers(&self) -> Headers {
        match self.path {
            PathKind::Stream(path) if !path.makes_headers() => Headers::Stored,
            _ => Headers::Generated,
        }
    }

    /// Train for a range of packets, in a file with these headers that begins at `start`.
    #[inline]
    pub(crate) fn train(&self, stretch: PacketRange, start: u64, headers: Headers) -> Train {
        let header = if headers == Headers::Generated { 0 } else { HEADER_LENGTH as u64 };
        let packet = u64::from(self.size.unwrap_or(1)) + header;
        Train {
            offset: start + stretch.first * packet,
            length: (stretch.bytes + stretch.packets * header) as u32,
            packet_size: packet as u16,
            skip: 0,
            first: stretch.first as u32,
            packets_before: 0,
            run: RUN,
        }
    }

    /// Packetization of `volume` bytes from a file of this length.
    pub(crate) fn walk(&self, file: u64, volume: u64) -> Packetization {
        Packetization::new(file, self.size.map_or(file, u64::from), volume)
    }

    /// Label: `wire_sendfile, 1460 bytes, UDP`.
    pub(crate) fn label(&self) -> String {
        let size = self.size.map_or("the whole file".to_owned(), |size| format!("{size} bytes"));
        format!("{}, {size}, {}", self.path_variant(), self.transport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirepath_datapath::DataPath;

    fn stream(path: DataPath, size: u16) -> Case {
        Case::new(PathKind::Stream(path), Transport::Udp, Some(size))
    }

    #[test]
    fn paths_that_cannot_make_headers_send_ready_packets() {
        assert_eq!(stream(DataPath::WireSendfile, 1460).content(), Content::Ready(1460));
        assert_eq!(stream(DataPath::GsoWritev, 1460).content(), Content::Payload);
    }

    #[test]
    fn trains_fit_a_datagram() {
        assert_eq!(stream(DataPath::GsoWritev, 512).train_packets(), 48);
        assert_eq!(stream(DataPath::GsoWritev, 8960).train_packets(), 7);
        assert_eq!(stream(DataPath::GsoWritev, 60_000).train_packets(), 1);
        assert!(u64::from(stream(DataPath::Krtpsendfile, 1460).train_packets()) * 1460 > 4_000_000_000);
    }

    #[test]
    fn a_connection_gets_trains_of_packets_and_single_blocks() {
        for path in PathKind::framed() {
            let case = Case::new(path, Transport::Tcp, Some(512));
            assert_eq!((case.train_packets(), case.packet_size()), (48, 524), "{path}");
            assert_eq!((case.content(), case.headers()), (Content::Payload, Headers::Generated), "{path}");
        }
        let block = PathKind::Block(wirepath_datapath::BlockPath::MmapZerocopy);
        assert_eq!(Case::new(block, Transport::Tcp, Some(512)).train_packets(), 1);
    }

    #[test]
    fn an_mtu_sized_packet_is_the_largest_that_is_not_fragmented() {
        assert!(!stream(DataPath::GsoWritev, 1460).is_fragmented(1472));
        assert!(stream(DataPath::GsoWritev, 1461).is_fragmented(1472));
    }
}
