//! Pairs of UDP sockets: RTP on an even port, RTCP on the next (RFC 3550 section 11).

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wirepath_media::rtsp::PortPair;

/// Receive buffer of datagrams that nobody reads: clients open their firewalls with a few to the RTP port.
const RTP_RECEIVE_BUFFER: usize = 4096;

/// Room for some tens of reports.
const RTCP_RECEIVE_BUFFER: usize = 32 * 1024;

/// Allocates pairs from a range of ports in turn, so that a freed port rests.
#[derive(Debug)]
pub(super) struct Ports {
    /// First even port.
    first: u32,
    pairs: u32,
    next: AtomicU32,
}

/// Two sockets on neighbouring ports, connected to a client.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) rtp: UdpSocket,
    pub(super) rtcp: UdpSocket,
    pub(super) ports: PortPair,
}

/// Number of pairs of ports in a range: most sessions that can use it.
pub fn port_pairs(range: &RangeInclusive<u16>) -> usize {
    Ports::new(range).pairs as usize
}

impl Ports {
    pub(super) fn new(range: &RangeInclusive<u16>) -> Self {
        let first = u32::from(*range.start()).next_multiple_of(2).max(2);
        let pairs = (u32::from(*range.end()) + 1).saturating_sub(first) / 2;
        Self { first, pairs, next: AtomicU32::new(0) }
    }

    /// Binds the next free pair to a local address and connects it to the client's ports. The address keeps
    /// its scope, which link-local ones need.
    pub(super) fn open(&self, local: SocketAddr, peer: SocketAddr, client: PortPair) -> io::Result<Pair> {
        for _ in 0..self.pairs {
            let number = self.next.fetch_add(1, Relaxed) % self.pairs;
            let rtp = (self.first + 2 * number) as u16; // below the range's end
            let ports = PortPair { rtp, rtcp: rtp + 1 };
            let rtp = open_socket((local, ports.rtp), (peer, client.rtp), RTP_RECEIVE_BUFFER);
            let rtcp = || open_socket((local, ports.rtcp), (peer, client.rtcp), RTCP_RECEIVE_BUFFER);
            match rtp.and_then(|rtp| Ok(Pair { rtp, rtcp: rtcp()?, ports })) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                result => return result,
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "every pair of UDP ports of the range is in use"))
    }
}

/// An address as IPv4 where it is one inside IPv6, which a listener on `::` sees.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

fn open_socket(
    (mut local, port): (SocketAddr, u16),
    (mut peer, peer_port): (SocketAddr, u16),
    receive_buffer: usize,
) -> io::Result<UdpSocket> {
    local.set_port(port);
    peer.set_port(peer_port);
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_recv_buffer_size(receive_buffer)?;
    socket.bind(&local.into())?;
    socket.connect(&peer.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn pairs_are_even_and_odd_and_inside_the_range() {
        for (range, first, pairs) in [
            (5000..=5001, 5000, 1),
            (5001..=5004, 5002, 1),
            (5001..=5005, 5002, 2),
            (0..=3, 2, 1),
            (65_534..=65_535, 65_534, 1),
            (65_535..=65_535, 0, 0),
            (5001..=5001, 5002, 0),
        ] {
            let ports = Ports::new(&range);
            assert_eq!(ports.pairs, pairs, "{range:?}");
            assert!(pairs == 0 || ports.first == first, "{range:?}");
        }
    }

    #[test]
    fn a_pair_in_use_is_passed_over_and_a_full_range_says_so() {
        let client = PortPair { rtp: 40_000, rtcp: 40_001 };
        let ports = Ports::new(&(47_310..=47_313));
        let first = ports.open(LOCAL, LOCAL, client).expect("free");
        let second = ports.open(LOCAL, LOCAL, client).expect("free");
        assert_eq!((first.ports.rtp, second.ports.rtp), (47_310, 47_312));
        assert_eq!(first.rtp.peer_addr().expect("connected").port(), 40_000);
        assert_eq!(first.rtcp.peer_addr().expect("connected").port(), 40_001);
        assert_eq!(first.rtcp.local_addr().expect("bound").port(), 47_311);
        let full = ports.open(LOCAL, LOCAL, client).expect_err("full");
        assert_eq!(full.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert_eq!(ports.open(LOCAL, LOCAL, client).expect("free again").ports.rtp, 47_310);
    }
}
