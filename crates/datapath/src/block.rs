//! The ways to send blocks of a file without headers, by name: what the papers call download.

use std::fmt;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::SendFlags;
use wirepath_sys::socket::{set_fragmentation, set_segment};

use crate::{Extent, Medium, Scratch, SendError, Taken};
use crate::{read_write, sendfile, uring_send};

/// Never wait for room, never raise SIGPIPE.
pub(crate) const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// A way to take blocks of a file to a TCP connection or, a datagram or a train at a time, to a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockPath {
    /// An io_uring sends from registered memory: to UDP trains, many in a call; to TCP a call. No copy.
    UringSend,
    /// `sendfile`: a call, no copy.
    Sendfile,
    /// `pread` and `send`: two calls, two copies.
    ReadWrite,
}

impl BlockPath {
    /// All of them.
    pub const ALL: [BlockPath; 3] = [BlockPath::UringSend, BlockPath::Sendfile, BlockPath::ReadWrite];

    /// The name used in options, output and documentation.
    pub fn name(self) -> &'static str {
        match self {
            BlockPath::UringSend => "uring_send",
            BlockPath::Sendfile => "sendfile",
            BlockPath::ReadWrite => "read_write",
        }
    }

    /// Whether it sends trains of datagrams, which needs UDP_SEGMENT on a UDP socket; the others send a datagram a call.
    pub fn segments(self) -> bool {
        match self {
            BlockPath::UringSend => true,
            BlockPath::Sendfile | BlockPath::ReadWrite => false,
        }
    }

    /// Sends the extent: to a UDP socket as one datagram (or train) or not at all, to a TCP connection as much of it as is taken
    /// now. Answers how many bytes, at least one. Never blocks, allocates nothing.
    ///
    /// # Errors
    /// [`SendError`] says what to do about each; nothing was sent.
    #[inline]
    pub fn send(
        self,
        sink: &BlockSink,
        medium: &Medium,
        extent: Extent,
        scratch: &mut Scratch,
    ) -> Result<usize, SendError> {
        match self {
            BlockPath::UringSend => uring_send::send(sink, medium, extent, scratch),
            BlockPath::Sendfile => sendfile::send(sink, medium, extent),
            BlockPath::ReadWrite => read_write::send(sink, medium, extent, &mut scratch.payload),
        }
    }

    /// As `send`, but a datagram or train whose path can queue is only queued, and answered with `token` (any number but
    /// `u64::MAX`) by [`Scratch::flush`]. A stream's bytes are always sent at once: how many it took decides what comes next.
    ///
    /// # Errors
    /// As `send`; [`SendError::Full`] also if the queue has no room before the next flush.
    #[inline]
    pub fn enqueue(
        self,
        sink: &BlockSink,
        medium: &Medium,
        extent: Extent,
        scratch: &mut Scratch,
        token: u64,
    ) -> Result<Taken<usize>, SendError> {
        match self {
            BlockPath::UringSend if !sink.is_stream() => {
                uring_send::enqueue(sink, medium, extent, scratch, token).map(|()| Taken::Queued)
            }
            path => path.send(sink, medium, extent, scratch).map(Taken::Sent),
        }
    }
}

impl fmt::Display for BlockPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that is no such path's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no path for downloads is called {0:?}; there are {names}", names = BlockPath::ALL.map(BlockPath::name).join(", "))]
pub struct UnknownBlockPath(String);

impl FromStr for BlockPath {
    type Err = UnknownBlockPath;

    fn from_str(name: &str) -> Result<BlockPath, UnknownBlockPath> {
        BlockPath::ALL
            .into_iter()
            .find(|path| path.name() == name)
            .ok_or_else(|| UnknownBlockPath(name.to_owned()))
    }
}

/// Where blocks go: a connected socket, set up for one path.
#[derive(Debug)]
pub struct BlockSink {
    pub(crate) socket: Arc<OwnedFd>,
    stream: bool,
}

impl BlockSink {
    /// A TCP connection.
    ///
    /// # Errors
    /// What the calls say.
    pub fn tcp(socket: TcpStream, path: BlockPath) -> io::Result<BlockSink> {
        let _ = path;
        socket.set_nonblocking(true)?;
        Ok(BlockSink { socket: Arc::new(socket.into()), stream: true })
    }

    /// A UDP socket connected to one receiver, for datagrams of at most `packet_size` bytes.
    ///
    /// # Errors
    /// `ENOPROTOOPT` if the path needs segmentation and the kernel has none (before Linux 4.18), else what the calls say.
    pub fn udp(socket: UdpSocket, packet_size: u16, path: BlockPath) -> io::Result<BlockSink> {
        socket.set_nonblocking(true)?;
        if path.segments() {
            set_segment(socket.as_fd(), packet_size)?;
        }
        set_fragmentation(socket.as_fd(), socket.local_addr()?, !path.segments())?;
        Ok(BlockSink { socket: Arc::new(socket.into()), stream: false })
    }

    /// The socket, to wait for room or to shut down.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether it takes bytes, not datagrams.
    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// Sorts what a send answered.
    pub(crate) fn failed(&self, call: &'static str, errno: Errno) -> SendError {
        match errno {
            Errno::AGAIN => SendError::Full { call },
            Errno::FAULT => SendError::Storage { call, errno },
            errno if self.stream => SendError::Other { call, errno },
            errno => SendError::of_udp(call, errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for path in BlockPath::ALL {
            assert_eq!(path.name().parse(), Ok(path));
        }
        assert!("fastest".parse::<BlockPath>().unwrap_err().to_string().contains("sendfile"));
    }
}
