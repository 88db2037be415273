//! UDP ports of sessions: RTP on an even port, RTCP on the next (RFC 3550 section 11), shared by sessions.

use super::counters::Counters;
use super::port_socket::{PortSocket, PortUse, SharedBatch, shared_batch};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use wirepath_media::rtsp::PortPair;

/// Sessions on a pair of ports before another pair is opened. The kernel checks all sockets of a port when
/// one is bound to it, and before Linux 6.13 also when a datagram arrives.
const SESSIONS_PER_PAIR: usize = 64;

/// Most open pairs for one local address; further sessions are spread over these.
const MOST_PAIRS: usize = 64;

/// Most pairs that are tried when one is to be opened. The next time, other pairs are tried. After handovers,
/// each old server may hold up to [`MOST_PAIRS`], usually the first of the range: this number is enough for
/// three of them.
const TRIES: u32 = 4 * MOST_PAIRS as u32;

/// Number of local addresses whose pairs stay open without sessions.
const IDLE_ADDRESSES: usize = 16;

/// Ports of a range, opened in pairs as sessions need them.
pub(super) struct Ports {
    /// First even port.
    first: u32,
    pairs: u32,
    counters: Arc<Counters>,
    batch: Arc<SharedBatch>,
    /// Open pairs by local address; the port is not part of the key.
    open: Mutex<HashMap<SocketAddr, OpenPairs>>,
}

/// Open pairs of a local address.
#[derive(Default)]
struct OpenPairs {
    /// The first pair, which stays open without sessions.
    kept: Option<Arc<PortSocket>>,
    pairs: Vec<Weak<PortSocket>>,
    /// Number of the pair that is tried next.
    next: u32,
}

/// Sockets of a session.
pub(super) struct SessionPorts {
    /// Socket for RTP, connected to the client.
    pub(super) rtp: UdpSocket,
    /// Use of the socket for RTCP.
    pub(super) rtcp: PortUse,
    pub(super) ports: PortPair,
}

/// Number of pairs of ports in a range.
pub fn port_pairs(range: &RangeInclusive<u16>) -> usize {
    span(range).1 as usize
}

/// First even port of a range, and its number of pairs.
fn span(range: &RangeInclusive<u16>) -> (u32, u32) {
    let first = u32::from(*range.start()).next_multiple_of(2).max(2);
    (first, (u32::from(*range.end()) + 1).saturating_sub(first) / 2)
}

impl Ports {
    pub(super) fn new(range: &RangeInclusive<u16>, counters: Arc<Counters>) -> Self {
        let (first, pairs) = span(range);
        Self { first, pairs, counters, batch: shared_batch(), open: Mutex::default() }
    }

    /// Sockets for a session, at a local address and connected to the client's ports. The address keeps its
    /// scope, which link-local addresses need. Must be called on a tokio runtime.
    pub(super) fn open(
        &self,
        mut local: SocketAddr,
        mut peer: SocketAddr,
        client: PortPair,
    ) -> io::Result<SessionPorts> {
        local.set_port(0);
        peer.set_port(client.rtcp);
        let mut open = self.open.lock();
        if open.len() > IDLE_ADDRESSES {
            open.retain(|address, pairs| *address == local || pairs.are_used());
        }
        let socket = self.socket_for(open.entry(local).or_default(), local, peer)?;
        drop(open);
        let rtcp = PortUse::new(&socket, peer);
        peer.set_port(client.rtp);
        Ok(SessionPorts { rtp: socket.connect_rtp(peer)?, rtcp, ports: socket.ports() })
    }

    /// The pair with the fewest sessions that does not serve this client's ports yet. If all have many
    /// sessions, another pair is opened.
    fn socket_for(
        &self,
        open: &mut OpenPairs,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> io::Result<Arc<PortSocket>> {
        open.pairs.retain(|pair| pair.strong_count() > 0);
        let usual = open.least_used(|pair| !pair.serves(peer));
        let most = MOST_PAIRS.min(self.pairs as usize);
        match usual {
            Some(pair) if pair.sessions() < SESSIONS_PER_PAIR || open.pairs.len() >= most => return Ok(pair),
            None if open.pairs.len() >= most => {}
            _ => match self.open_next(open, local) {
                Ok(pair) => return Ok(pair),
                Err(error) if open.pairs.is_empty() => return Err(error),
                // A crowded pair is better than none.
                Err(error) => tracing::debug!(%error, "no further pair of UDP ports"),
            },
        }
        let any = || open.least_used(|_| true);
        usual.or_else(any).ok_or_else(in_use)
    }

    fn open_next(&self, open: &mut OpenPairs, local: SocketAddr) -> io::Result<Arc<PortSocket>> {
        for _ in 0..TRIES.min(self.pairs) {
            let rtp = (self.first + 2 * (open.next % self.pairs)) as u16; // below the range's end
            open.next = (open.next + 1) % self.pairs;
            if open.pairs().any(|pair| pair.ports().rtp == rtp) {
                continue;
            }
            match PortSocket::open(local, PortPair { rtp, rtcp: rtp + 1 }, &self.counters, &self.batch) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
                Ok(pair) => {
                    open.pairs.push(Arc::downgrade(&pair));
                    open.kept.get_or_insert_with(|| Arc::clone(&pair));
                    return Ok(pair);
                }
            }
        }
        Err(in_use())
    }
}

impl OpenPairs {
    fn least_used(&self, is_possible: impl Fn(&PortSocket) -> bool) -> Option<Arc<PortSocket>> {
        self.pairs().filter(|pair| is_possible(pair)).min_by_key(|pair| pair.sessions())
    }

    fn are_used(&self) -> bool {
        self.pairs().any(|pair| pair.sessions() > 0)
    }

    fn pairs(&self) -> impl Iterator<Item = Arc<PortSocket>> {
        self.pairs.iter().filter_map(Weak::upgrade)
    }
}

fn in_use() -> io::Error {
    let why = "the UDP ports of --rtp-ports that were tried are in use by other programs";
    io::Error::new(io::ErrorKind::AddrInUse, why)
}

/// Converts an IPv4 address inside IPv6, which a listener on `::` gets, to IPv4.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests;
