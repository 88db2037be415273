//! Where trains go: a UDP socket connected to one receiver.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use wirepath_sys::socket::{set_fragmentation, set_segment};

use crate::Path;

/// The MTU in bytes that the kernel knows of the path to the address `socket` is connected to.
///
/// # Errors
/// `ENOTCONN` if it is not connected, else what the calls say.
pub fn path_mtu(socket: &UdpSocket) -> io::Result<u32> {
    wirepath_sys::socket::path_mtu(socket.as_fd(), socket.local_addr()?)
}

/// A UDP socket connected to one receiver, set up for one data path.
#[derive(Debug)]
pub struct UdpSink {
    pub(crate) socket: UdpSocket,
    local: SocketAddr,
    packet_size: u16,
}

impl UdpSink {
    /// Sets `socket`, which is connected, up for packets of at most `packet_size` bytes by `path`.
    ///
    /// # Errors
    /// `ENOPROTOOPT` if the path needs segmentation and the kernel has none (before Linux 4.18), else what the calls say.
    pub fn new(socket: UdpSocket, packet_size: u16, path: Path) -> io::Result<UdpSink> {
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let sink = UdpSink { socket, local, packet_size };
        sink.prepare(path)?;
        Ok(sink)
    }

    /// Sets the socket up for another path. The paths that send packet by packet let the network fragment what is too
    /// large for it, so that they work everywhere; those that send segments cannot.
    ///
    /// # Errors
    /// What the calls say.
    pub fn prepare(&self, path: Path) -> io::Result<()> {
        let segment = if path.segments() { self.packet_size } else { 0 };
        match set_segment(self.socket.as_fd(), segment) {
            Err(error) if path.segments() => return Err(error),
            _ => {} // a kernel without segmentation need not turn it off
        }
        set_fragmentation(self.socket.as_fd(), self.local, !path.segments())
    }

    /// The socket, to wait for room.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The local address that packets come from.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }
}
