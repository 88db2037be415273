//! Pairs of UDP sockets, a pair for each track of a session.
//!
//! Each session has its own ports, as every player does: servers distinguish clients by address and port, may
//! send all clients the same SSRC from the same port, and some refuse a second session to the same port.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use socket2::{Domain, SockFilter, Socket, Type};
use tokio::net::UdpSocket;
use wirepath_sys::{arrivals, datagrams};

/// Range of ports for pairs. It avoids low port numbers, but includes most of the other ports.
const PORTS: std::ops::Range<u16> = 10_000..65_000;

/// Maximum number of pairs tried.
const ATTEMPTS: u32 = (PORTS.end - PORTS.start) as u32 / 2;

/// Requested size of receive buffers. The system may limit the size.
const RECEIVE_BUFFER: usize = 1 << 20;

/// Size of receive buffers for RTCP. It is small, since there may be many sessions.
const RTCP_BUFFER: usize = 16 << 10;

thread_local! {
    /// Next port to try. Each thread starts at a random port, so that threads seldom collide.
    static NEXT: Cell<u16> = const { Cell::new(0) };
}

/// Sockets of a track.
#[derive(Debug)]
pub(crate) struct UdpPair {
    pub(crate) rtp: UdpSocket,
    pub(crate) rtcp: UdpSocket,
}

impl UdpPair {
    /// Binds an even port and the next port of this address. Unless `received` is true, the kernel drops
    /// received RTP at once.
    pub(crate) fn bind(address: IpAddr, received: bool) -> io::Result<UdpPair> {
        for _ in 0..ATTEMPTS {
            let port = next_port()?;
            match bind_both(address, port, received) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                result => return result,
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Port for RTP. RTCP uses the next port.
    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.rtp.local_addr()?.port())
    }
}

fn next_port() -> io::Result<u16> {
    let next = match NEXT.get() {
        0 => PORTS.start + getrandom::u32()? as u16 % (PORTS.end - PORTS.start) / 2 * 2,
        next => next,
    };
    NEXT.set(if next + 2 < PORTS.end { next + 2 } else { PORTS.start });
    Ok(next)
}

fn bind_both(address: IpAddr, port: u16, received: bool) -> io::Result<UdpPair> {
    let rtp = socket(address)?;
    // Receives whole trains, even if they are dropped: otherwise the kernel would split trains before the
    // filter drops them.
    datagrams::set_receive_offload(rtp.as_fd(), true)?;
    if received {
        arrivals::enable_timestamps(rtp.as_fd())?;
        enlarge(&rtp)?;
    } else {
        rtp.attach_filter(&[drop_everything()])?;
    }
    rtp.bind(&SocketAddr::from((address, port)).into())?;
    let rtcp = socket(address)?;
    rtcp.set_recv_buffer_size(RTCP_BUFFER)?;
    rtcp.bind(&SocketAddr::from((address, port + 1)).into())?;
    Ok(UdpPair { rtp: UdpSocket::from_std(rtp.into())?, rtcp: UdpSocket::from_std(rtcp.into())? })
}

fn socket(address: IpAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address((address, 0).into()), Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn enlarge(socket: &Socket) -> io::Result<()> {
    socket.set_recv_buffer_size(RECEIVE_BUFFER)
}

/// `BPF_RET | BPF_K` of `linux/bpf_common.h`: keeps 0 bytes.
fn drop_everything() -> SockFilter {
    SockFilter::new(0x06, 0, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn inside<T>(test: impl FnOnce() -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let _inside = runtime.enter();
        test()
    }

    #[test]
    fn ports_are_pairs_of_their_own() {
        inside(|| {
            let pairs: Vec<UdpPair> = (0..50).map(|_| UdpPair::bind(HERE, true).unwrap()).collect();
            let mut ports: Vec<u16> = pairs.iter().map(|pair| pair.port().unwrap()).collect();
            for (pair, port) in pairs.iter().zip(&ports) {
                assert!(port.is_multiple_of(2) && pair.rtcp.local_addr().unwrap().port() == port + 1);
            }
            ports.sort_unstable();
            ports.dedup();
            assert_eq!(ports.len(), 50);
        });
    }

    /// Promise: The kernel drops media of unjudged sessions before it reaches a socket.
    #[test]
    fn a_filter_drops_media_and_leaves_rtcp() {
        inside(|| {
            let pair = UdpPair::bind(HERE, false).unwrap();
            let sender = std::net::UdpSocket::bind((HERE, 0)).unwrap();
            sender.send_to(&[0; 100], pair.rtp.local_addr().unwrap()).unwrap();
            sender.send_to(&[0; 10], pair.rtcp.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 200];
            assert_eq!(arrivals::receive(pair.rtcp.as_fd(), &mut buffer).unwrap().bytes, 10);
            let error = arrivals::receive(pair.rtp.as_fd(), &mut buffer).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            assert_eq!(arrivals::drops(pair.rtp.as_fd()).unwrap(), 1);
        });
    }
}
