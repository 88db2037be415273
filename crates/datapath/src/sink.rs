//! Sinks of trains: a UDP socket connected to one receiver.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::SendFlags;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery as V4, Ipv6PathMtuDiscovery as V6};
use wirepath_sys::cpu::prefetch;
use wirepath_sys::datagrams::payload_room;
use wirepath_sys::gather::MAXIMUM_DATAGRAMS;
use wirepath_sys::header_blocks::HeaderBlocks;
use wirepath_sys::socket::set_segment;
use wirepath_sys::zerocopy;

use crate::loans::Loans;
use crate::{DataPath, LoanCounts, SendError};

/// Never wait for room, never raise SIGPIPE.
pub(crate) const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Most outstanding loans of sends with generated headers.
const HEADER_BLOCKS: usize = 64;

/// The kernel's MTU, in bytes, of the path to the address that `socket` is connected to.
///
/// # Errors
///
/// `ENOTCONN` if it is not connected, else those of the calls.
pub fn path_mtu(socket: &UdpSocket) -> io::Result<u32> {
    let mtu = match socket.local_addr()? {
        SocketAddr::V4(_) => sockopt::ip_mtu(socket),
        SocketAddr::V6(_) => sockopt::ipv6_mtu(socket),
    };
    Ok(mtu?)
}

/// Allows or (the default) forbids the kernel to fragment datagrams larger than the path's MTU.
pub(crate) fn set_fragmentation(socket: impl AsFd, local: SocketAddr, allowed: bool) -> io::Result<()> {
    match local {
        SocketAddr::V4(_) => {
            sockopt::set_ip_mtu_discover(socket, if allowed { V4::DONT } else { V4::WANT })?;
        }
        SocketAddr::V6(_) => {
            sockopt::set_ipv6_mtu_discover(socket, if allowed { V6::DONT } else { V6::WANT })?;
        }
    }
    Ok(())
}

/// Returns whether packets of this size fit the MTU of the path. Larger packets may be fragmented if
/// segmentation is used only for checksums, or by the kernel module.
pub(crate) fn packets_fit(socket: &UdpSocket, packet_size: u16) -> bool {
    let room = || Ok::<u32, io::Error>(payload_room(path_mtu(socket)?, socket.local_addr()?));
    room().is_ok_and(|room| u32::from(packet_size) <= room)
}

/// A UDP socket connected to one receiver, set up for one data path.
#[derive(Debug)]
pub struct UdpSink {
    pub(crate) socket: Arc<UdpSocket>,
    local: SocketAddr,
    packet_size: u16,
    /// Segment size of the socket; 0 without segmentation.
    segment: Cell<u16>,
    /// True if packets fit the path's MTU, so that the kernel can cut trains of them.
    fits: Cell<bool>,
    /// True if the kernel module may make trains.
    trains: bool,
    /// Present from the first path that lends; boxed, because few sinks have it.
    pub(crate) lender: OnceCell<Box<RefCell<HeaderLender>>>,
}

/// Blocks for generated headers that are lent.
#[derive(Debug)]
pub(crate) struct HeaderLender {
    pub(crate) loans: Loans<()>,
    pub(crate) blocks: HeaderBlocks,
    /// Next block; blocks are used in turn.
    pub(crate) next: usize,
}

impl HeaderLender {
    fn new() -> io::Result<HeaderLender> {
        let blocks = HeaderBlocks::new(HEADER_BLOCKS)?;
        Ok(HeaderLender { loans: Loans::new(HEADER_BLOCKS, |()| ()), blocks, next: 0 })
    }

    /// Advances to the next block.
    pub(crate) fn advance(&mut self) {
        self.next = (self.next + 1) % HEADER_BLOCKS;
    }
}

impl UdpSink {
    /// Sets up a connected `socket` for packets of at most `packet_size` bytes, with headers, by `path`.
    ///
    /// # Errors
    /// `ENOPROTOOPT` if the path needs segmentation and the kernel has none (before Linux 4.18), `ENOTSUPP`
    /// (524) if it lends and the kernel cannot (before Linux 5.0), else those of the calls.
    pub fn new(socket: UdpSocket, packet_size: u16, path: DataPath) -> io::Result<UdpSink> {
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let sink = UdpSink {
            socket: Arc::new(socket),
            local,
            packet_size,
            segment: Cell::new(0),
            fits: Cell::new(true),
            trains: true,
            lender: OnceCell::new(),
        };
        sink.prepare(path)?;
        Ok(sink)
    }

    /// Prefetches the data needed for sending, except the sink itself.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&*self.socket);
    }

    /// Like [`UdpSink::new`], but runs of the kernel module are single packets: to measure the saving of
    /// trains.
    pub fn without_segmentation(self) -> UdpSink {
        UdpSink { trains: false, ..self }
    }

    /// Sets the socket up for another path. Paths that send packet by packet let the network fragment packets
    /// that are too large, so that they work everywhere; paths that send segments cannot.
    pub fn prepare(&self, path: DataPath) -> io::Result<()> {
        if path.lends() && self.lender.get().is_none() {
            zerocopy::enable(self.socket.as_fd())?;
            let lender = HeaderLender::new()?;
            self.lender.get_or_init(|| Box::new(RefCell::new(lender)));
        }
        // Segmentation by the module needs no socket option.
        let fits = path.segments()
            || ((path.segments_if_fitting() || path.takes_runs())
                && packets_fit(&self.socket, self.packet_size));
        self.fits.set(fits);
        let segments = fits && !path.takes_runs();
        let segment = if segments { self.packet_size } else { 0 };
        match set_segment(self.socket.as_fd(), segment) {
            Err(error) if segments => return Err(error),
            _ => {} // a kernel without segmentation need not turn it off
        }
        self.segment.set(segment);
        set_fragmentation(self.socket.as_fd(), self.local, !fits)
    }

    /// Sets the segment size of the socket to the packets of a train, if it uses segmentation: a movie has trains
    /// of several packet sizes.
    #[inline]
    pub(crate) fn fit_segment(&self, packet_size: u16, packets: u32) -> Result<(), SendError> {
        let segment = self.segment.get();
        let fits = if packets > 1 { packet_size == segment } else { packet_size <= segment };
        if segment == 0 || fits { Ok(()) } else { self.set_segment_size(packet_size) }
    }

    #[cold]
    fn set_segment_size(&self, packet_size: u16) -> Result<(), SendError> {
        let (call, size) = ("setsockopt(UDP_SEGMENT)", packet_size);
        let set = set_segment(self.socket.as_fd(), size);
        set.map_err(|error| SendError::Other { call, errno: wirepath_sys::errno_of(&error) })?;
        self.segment.set(size);
        Ok(())
    }

    /// Packets of a train that the kernel module cuts: one if they are fragmented, or without trains.
    pub(crate) fn train_packets(&self) -> u32 {
        if self.fits.get() && self.trains { MAXIMUM_DATAGRAMS as u32 } else { 1 }
    }

    /// Loans and copies, as of the last send or [`UdpSink::wait_for_loans`]; zeros if no path lent.
    pub fn loans(&self) -> LoanCounts {
        self.lender.get().map(|lender| lender.borrow().loans.counts()).unwrap_or_default()
    }

    /// Waits until all loans are completed, at most for `timeout`; returns whether they are.
    pub fn wait_for_loans(&self, timeout: Duration) -> io::Result<bool> {
        match self.lender.get() {
            Some(lender) => lender.borrow_mut().loans.wait(self.socket.as_fd(), timeout),
            None => Ok(true),
        }
    }

    /// The socket, to wait for room.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The local source address of the packets.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_path_has_an_mtu_once_connected() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = socket.local_addr().unwrap();
        assert_eq!(path_mtu(&socket).unwrap_err().kind(), io::ErrorKind::NotConnected);
        socket.connect(local).unwrap();
        assert!(path_mtu(&socket).unwrap() >= 1280);
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let socket = UdpSocket::bind(address).unwrap();
            set_fragmentation(&socket, socket.local_addr().unwrap(), true).unwrap();
        }
    }
}
