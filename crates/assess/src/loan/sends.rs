//! Sends of one size, copied or lent: socket, bytes and result.

use wirepath_datapath::{BlockPath, LoanPolicy};

use crate::case::{Case, MOST_OF_DATAGRAM};
use crate::header_sizes::UDP_OVER_IPV4;
use crate::packetization::PacketRange;
use crate::subject::{PathKind, Transport};

/// Distance of the beginning of a send to the next page, if it does not begin at one. Not within 16 bytes: to
/// the beginning of a page, as sockets copy, some processors copy from there 25 times as slowly (AMD with fast
/// `rep movsb`, by the last bits of both addresses), which is not what a copy from elsewhere costs.
const BEFORE_PAGE: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendKind {
    /// `send` copies the payload.
    Copied,
    /// `send` with MSG_ZEROCOPY lends the pages.
    Lent,
    /// The path `loan`, which copies or lends by its policy.
    Auto,
    /// `send` copies the payload, as one datagram that the kernel fragments.
    Fragments,
    /// `sendfile` refers to the pages, as one datagram that the kernel fragments.
    Spliced,
}

impl SendKind {
    /// Kinds that are compared with sends that copy.
    pub(super) const OTHERS: [SendKind; 4] =
        [SendKind::Lent, SendKind::Auto, SendKind::Fragments, SendKind::Spliced];

    fn is_fragmented(self) -> bool {
        matches!(self, SendKind::Fragments | SendKind::Spliced)
    }

    /// Returns whether such sends may lend.
    pub(super) fn lends(self) -> bool {
        matches!(self, SendKind::Lent | SendKind::Auto)
    }
}

/// Sends of one kind and size over one transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sends {
    pub(super) kind: SendKind,
    pub(super) transport: Transport,
    /// Bytes of a send.
    pub(super) size: u32,
    /// True if each send begins at a page boundary; else [`BEFORE_PAGE`] bytes before, so that it covers part
    /// of one more page.
    pub(super) aligned: bool,
    /// Bytes of a UDP datagram that fills the MTU.
    pub(super) segment: u16,
}

impl Sends {
    /// Payload of datagrams that fill this MTU.
    pub(super) fn segment(mtu: u32) -> u16 {
        (mtu - UDP_OVER_IPV4).min(MOST_OF_DATAGRAM) as u16
    }

    /// Returns whether there are such sends: what fits into a packet, and a stream, is not fragmented.
    pub(super) fn is_possible(&self) -> bool {
        let is_large = self.transport == Transport::Udp && self.size > self.segment.into();
        is_large || !self.kind.is_fragmented()
    }

    /// Bytes of a datagram.
    fn datagram(&self) -> u16 {
        if self.kind.is_fragmented() { self.size.min(MOST_OF_DATAGRAM) as u16 } else { self.segment }
    }

    /// Case of the socket. Kinds that are not fragmented have UDP_SEGMENT set, so that the same datagrams leave;
    /// `loan` that is forced off is `mmap_send` on such a socket. `auto` is the policy of sends that choose.
    pub(super) fn case(&self, auto: LoanPolicy) -> Case {
        let (path, loans) = match self.kind {
            SendKind::Copied => (BlockPath::Loan, LoanPolicy::NEVER),
            SendKind::Lent => (BlockPath::MmapZerocopy, LoanPolicy::NEVER),
            SendKind::Auto => (BlockPath::Loan, auto),
            SendKind::Fragments => (BlockPath::MmapSend, LoanPolicy::NEVER),
            SendKind::Spliced => (BlockPath::Sendfile, LoanPolicy::NEVER),
        };
        let case = Case::new(PathKind::Block(path), self.transport, Some(self.datagram()));
        Case { loans, ..case }
    }

    /// Returns whether a send lends by this policy.
    pub(super) fn lends_by(&self, policy: LoanPolicy) -> bool {
        let start = self.offset_in_page() as usize;
        policy.lends(&(start..start + self.size as usize))
    }

    fn offset_in_page(&self) -> u64 {
        if self.aligned { 0 } else { rustix::param::page_size() as u64 - BEFORE_PAGE }
    }

    /// Sends of at least `volume` bytes in total from a file of this length, which has room for at least one.
    /// Each send begins at its own page, or just before it; at the end of the file sends start over.
    pub(super) fn stretches(&self, file: u64, volume: u64) -> impl Iterator<Item = PacketRange> {
        let (page, bytes) = (rustix::param::page_size() as u64, u64::from(self.size));
        let behind = self.offset_in_page();
        let apart = (behind + bytes).next_multiple_of(page);
        let places = (file / apart).max(1);
        let packets =
            if self.transport == Transport::Udp { bytes.div_ceil(self.datagram().into()) } else { 1 };
        (0..volume.div_ceil(bytes)).map(move |number| {
            let first = number % places;
            PacketRange { first, start: first * apart + behind, packets, bytes }
        })
    }

    /// Bytes that a file must have for these sends.
    pub(super) fn room(&self) -> u64 {
        let page = rustix::param::page_size() as u64;
        u64::from(self.size) + if self.aligned { 0 } else { page }
    }

    pub(super) fn label(&self, mtu: u32) -> String {
        let how = match self.kind {
            SendKind::Copied => "copied",
            SendKind::Lent => "lent",
            SendKind::Auto => "lent or copied by the policy",
            SendKind::Fragments => "copied and fragmented",
            SendKind::Spliced => "by reference and fragmented",
        };
        let place = if self.aligned { "page-aligned" } else { "unaligned" };
        format!("loan: {} bytes {place} {how}, {}, MTU {mtu}", self.size, self.transport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sends(transport: Transport, size: u32, mtu: u32, aligned: bool) -> Sends {
        Sends { kind: SendKind::Lent, transport, size, segment: Sends::segment(mtu), aligned }
    }

    #[test]
    fn a_send_is_a_train_over_udp_and_one_block_over_tcp() {
        for (transport, mtu, packets) in
            [(Transport::Udp, 1500, 6), (Transport::Udp, 9000, 1), (Transport::Tcp, 1500, 1)]
        {
            let sends: Vec<PacketRange> =
                sends(transport, 8192, mtu, true).stretches(20_000, 20_000).collect();
            let expected = [(0, 8192, packets), (8192, 8192, packets), (0, 8192, packets)];
            assert_eq!(
                sends.iter().map(|send| (send.start, send.bytes, send.packets)).collect::<Vec<_>>(),
                expected
            );
        }
    }

    #[test]
    fn sends_begin_at_pages_or_just_before() {
        let page = rustix::param::page_size() as u64;
        for (size, aligned, apart) in [
            (64, true, 1),
            (64, false, 1),
            (65, false, 2),
            (4096, true, 1),
            (4096, false, 2),
            (65_507, true, 16),
        ] {
            let sends = sends(Transport::Tcp, size, 1500, aligned);
            let file = sends.room().max(100 * page);
            let starts: Vec<u64> =
                sends.stretches(file, 3 * u64::from(size)).map(|send| send.start).collect();
            let behind = if aligned { 0 } else { page - BEFORE_PAGE };
            if page == 4096 {
                assert_eq!(
                    starts,
                    [0, apart, 2 * apart].map(|pages| pages * page + behind),
                    "{size} {aligned}"
                );
            }
            assert!(starts.iter().all(|start| start + u64::from(size) <= file), "{size} {aligned}");
        }
        // In a file with room for only one send, all sends begin at the same offset.
        let only = sends(Transport::Udp, 5000, 1500, false);
        assert!(only.stretches(only.room(), 20_000).all(|send| send.start + send.bytes <= only.room()));
    }

    #[test]
    fn the_policy_decides_by_size_and_offset() {
        let policy = LoanPolicy { aligned_bytes: Some(8192), unaligned_bytes: None, forced: None };
        let lends = |size, aligned| sends(Transport::Udp, size, 1500, aligned).lends_by(policy);
        assert!(lends(8192, true) && !lends(8191, true) && !lends(65_507, false));
        let auto = Sends { kind: SendKind::Auto, ..sends(Transport::Udp, 8192, 1500, true) };
        assert_eq!(auto.case(policy).loans, policy);
        assert_eq!(Sends { kind: SendKind::Copied, ..auto }.case(policy).loans, LoanPolicy::NEVER);
    }

    #[test]
    fn a_fragmented_send_is_one_datagram() {
        let of = |kind, transport, size, mtu| Sends { kind, ..sends(transport, size, mtu, true) };
        for (kind, path) in
            [(SendKind::Fragments, BlockPath::MmapSend), (SendKind::Spliced, BlockPath::Sendfile)]
        {
            for (size, mtu, possible) in
                [(1472, 1500, false), (1473, 1500, true), (8192, 9000, false), (65_507, 9000, true)]
            {
                let sends = of(kind, Transport::Udp, size, mtu);
                assert_eq!(sends.is_possible(), possible, "{size}, MTU {mtu}");
                assert!(!of(kind, Transport::Tcp, size, mtu).is_possible());
                let case = sends.case(LoanPolicy::ALWAYS);
                assert_eq!((case.path, case.packet_size()), (PathKind::Block(path), size as u16));
                assert_eq!(case.is_fragmented(mtu - UDP_OVER_IPV4), possible);
                assert!(sends.stretches(1 << 20, 1 << 18).all(|stretch| stretch.packets == 1));
            }
        }
        assert!(of(SendKind::Lent, Transport::Udp, 64, 1500).is_possible());
    }

    #[test]
    fn no_datagram_is_larger_than_one_can_be() {
        assert_eq!([1500, 9000, 65_536].map(Sends::segment), [1472, 8972, 65_507]);
    }
}
