//! Descriptors of what cannot be sent from, and of what cannot be sent to.

use std::fs::{File, OpenOptions};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, SocketType, ipproto, socket};

use crate::wire::IPV4;

/// The fault of a descriptor, the descriptor, and the expected answer.
pub(crate) type Wrong = (&'static str, i32, Errno);

/// Open descriptors, and one that is not.
pub(crate) struct Others {
    write_only: File,
    path_only: File,
    directory: File,
    zero: File,
    device: File,
    pipe: (OwnedFd, OwnedFd),
    listener: TcpListener,
    tcp: TcpStream,
    lonely_tcp: OwnedFd,
    unix: UnixDatagram,
    netlink: OwnedFd,
    raw: OwnedFd,
    udp: UdpSocket,
    closed: i32,
}

/// Nobody opens as many, so a descriptor from here on that was closed has no successor.
const HIGH: i32 = 900;

impl Others {
    /// With files in a folder.
    pub(crate) fn new(folder: &Path) -> Result<Others> {
        let path = folder.join("a file");
        let write_only = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        let path_flag = OFlags::PATH.bits() as i32;
        let listener = TcpListener::bind((IPV4, 0))?;
        let tcp = TcpStream::connect(listener.local_addr()?)?;
        let closed = fcntl_dupfd_cloexec(&write_only, HIGH).context("a descriptor to close")?.as_raw_fd();
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open(wirepath_sys::module::DEVICE)
            .context("the device")?;
        Ok(Others {
            write_only,
            path_only: OpenOptions::new().read(true).custom_flags(path_flag).open(&path)?,
            directory: File::open(folder)?,
            zero: File::open("/dev/zero")?,
            device,
            pipe: rustix::pipe::pipe()?,
            listener,
            tcp,
            lonely_tcp: socket(AddressFamily::INET, SocketType::STREAM, None)?,
            unix: UnixDatagram::unbound()?,
            netlink: socket(AddressFamily::NETLINK, SocketType::RAW, None)?,
            raw: socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))?,
            udp: UdpSocket::bind((IPV4, 0))?,
            closed,
        })
    }

    /// In the place of a file.
    pub(crate) fn files(&self) -> Vec<Wrong> {
        vec![
            ("a write-only file", self.write_only.as_raw_fd(), Errno::BADF),
            ("a path-only file", self.path_only.as_raw_fd(), Errno::BADF),
            ("a closed file", self.closed, Errno::BADF),
            ("a directory as file", self.directory.as_raw_fd(), Errno::INVAL),
            ("a device as file", self.zero.as_raw_fd(), Errno::INVAL),
            ("the module's device as file", self.device.as_raw_fd(), Errno::INVAL),
            ("a pipe as file", self.pipe.0.as_raw_fd(), Errno::INVAL),
            ("a socket as file", self.udp.as_raw_fd(), Errno::INVAL),
        ]
    }

    /// In the place of a UDP socket.
    pub(crate) fn sockets(&self) -> Vec<Wrong> {
        let mut sockets = self.no_sockets();
        sockets.extend([
            ("a connection of TCP", self.tcp.as_raw_fd(), Errno::PROTONOSUPPORT),
            ("a listener", self.listener.as_raw_fd(), Errno::PROTONOSUPPORT),
            ("TCP without a connection", self.lonely_tcp.as_raw_fd(), Errno::PROTONOSUPPORT),
        ]);
        sockets
    }

    /// In the place of a socket of UDP or TCP, of which the second answers as it does to `send()`.
    pub(crate) fn sockets_of_vectors(&self) -> Vec<Wrong> {
        let mut sockets = self.no_sockets();
        sockets.extend([
            ("a listener", self.listener.as_raw_fd(), Errno::PIPE),
            ("TCP without a connection", self.lonely_tcp.as_raw_fd(), Errno::PIPE),
            self.unconnected(),
        ]);
        sockets
    }

    /// A UDP socket without a destination.
    pub(crate) fn unconnected(&self) -> Wrong {
        ("UDP connected to nobody", self.udp.as_raw_fd(), Errno::DESTADDRREQ)
    }

    fn no_sockets(&self) -> Vec<Wrong> {
        vec![
            ("a file as socket", self.write_only.as_raw_fd(), Errno::NOTSOCK),
            ("a path-only socket", self.path_only.as_raw_fd(), Errno::BADF),
            ("a closed socket", self.closed, Errno::BADF),
            ("a directory as socket", self.directory.as_raw_fd(), Errno::NOTSOCK),
            ("the module's device as socket", self.device.as_raw_fd(), Errno::NOTSOCK),
            ("a pipe as socket", self.pipe.1.as_raw_fd(), Errno::NOTSOCK),
            ("a socket of one machine", self.unix.as_raw_fd(), Errno::PROTONOSUPPORT),
            ("netlink", self.netlink.as_raw_fd(), Errno::PROTONOSUPPORT),
            ("a raw socket", self.raw.as_raw_fd(), Errno::PROTONOSUPPORT),
        ]
    }
}
