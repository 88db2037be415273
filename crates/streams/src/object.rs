//! Objects: the data objects of the KStreams paper (section 4.1, table 1), one interface to files, mappings,
//! sockets, pipes and memory.
//!
//! | KStreams | here |
//! | --- | --- |
//! | `polldata` | an object fills a buffer, or names the extent of a file |
//! | `pushvmdata`, `pushpagedata` | an object takes bytes from the front of an outbox |
//! | `getmem`, `putmem` | the block that a [rewriting handler](crate::Rewrite) writes into |
//! | `waitdata`, `waitspace`, `dataready`, | readiness of the descriptor, |
//! | `spaceready`, `statechange` | for which an engine waits |

mod cold;
mod collected;
mod extents;
mod lend;
mod listener;
mod mapped;
mod outcome;
mod parts;
mod peek;
mod provisional;
mod read;
mod target;
mod write;

use std::fmt;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{SocketAddrAny, SocketType, getpeername, getsockname, ipproto, sockopt};
use wirepath_datapath::to_many::SocketId;
use wirepath_datapath::{datagrams, errno_of, socket};

use crate::write_progress::WriteProgress;

pub(crate) use cold::Cold;
pub use collected::Collected;
pub use extents::Extents;
pub(crate) use lend::LongTrain;
pub(crate) use listener::Listener;
pub(crate) use mapped::Mapped;
pub use outcome::SendOutcome;
pub(crate) use outcome::{Awaited, ReadOutcome, TRUNCATED, Unread};
pub use parts::ObjectPart;
pub(crate) use parts::{ObjectParts, Source};
pub(crate) use provisional::Provisional;
pub(crate) use target::{Batch, WriteTarget};
pub(crate) use write::WriteOutcome;

/// A source or sink of bytes. An object keeps bytes that were read and not used, so an object that is
/// [detached](crate::Stream::detach_input) can be attached elsewhere without loss.
pub struct Object {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Bytes that were read but not used.
    pub(crate) unread: BytesMut,
}

pub(crate) enum Kind {
    File(StoredFile),
    /// A byte stream: a connection, a pipe or a terminal.
    Stream(Connection),
    Listening(Listener),
    Datagrams(Datagrams),
    Mapping(Mapped),
    Memory(Bytes),
    Parts(ObjectParts),
    Collected(Collected),
}

/// A file, and the offset of the next byte.
pub(crate) struct StoredFile {
    pub(crate) file: Arc<File>,
    /// The offset is that of the descriptor, which other processes share: `>> log` of a shell.
    pub(crate) shares_place: bool,
    pub(crate) offset: u64,
    /// Offset at which reading ends.
    pub(crate) end: u64,
    /// Offset up to which the page cache had the file at `warm_at`.
    warm_until: u64,
    warm_at: Instant,
    /// Write progress of this file, advanced by writes to the object.
    pub(crate) progress: Option<Arc<WriteProgress>>,
    /// Progress of the writer that the reader follows.
    pub(crate) follows: Option<Arc<WriteProgress>>,
    /// Set for a file that was created for the stream.
    pub(crate) provisional: Option<Arc<Provisional>>,
}

pub(crate) struct Connection {
    pub(crate) descriptor: OwnedFd,
    pub(crate) is_socket: bool,
    /// Bytes to read before the connection counts as ended.
    pub(crate) left: u64,
    /// The peer has sent urgent data. `splice` stops before urgent data for ever, and reports the end once
    /// the peer has ended (`tcp_read_sock`); from the urgent data on, the connection is read and not spliced.
    pub(crate) has_urgent: bool,
}

pub(crate) struct Datagrams {
    pub(crate) socket: OwnedFd,
    /// Destination, if the socket is not connected.
    pub(crate) to: Option<SocketAddrAny>,
    /// Largest datagram that is made of shorter records.
    pub(crate) packet_bytes: usize,
    /// Records are datagrams as received, and leave unchanged.
    pub(crate) keeps_records: bool,
    /// Longer datagrams leave one by one: the route does not segment trains of such datagrams.
    pub(crate) longest_cut: usize,
    /// The beginning of the current record was too long; the rest of it is lost, too.
    pub(crate) is_losing: bool,
    pub(crate) had_too_long: bool,
    /// Reason of the first datagram that was too long, until it is reported.
    pub(crate) first_error: Option<String>,
    /// Number of ICMP errors for datagrams that were sent before.
    pub(crate) icmp_errors: u64,
    pub(crate) id: SocketId,
    /// The socket cuts sent bytes into datagrams of this length; 0 if it does not cut.
    pub(crate) cut_bytes: u16,
    /// Error that the socket reported when a train was to be lent; possibly an error of earlier datagrams.
    pub(crate) reported: Option<Errno>,
}

/// Error of a system call of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {call}: {errno}")]
pub struct ObjectError {
    /// Name of the object.
    pub name: String,
    /// The call that failed.
    pub call: &'static str,
    /// The error.
    pub errno: Errno,
}

/// Default size of a datagram that is made of a byte stream: seven packets of a transport stream.
const PACKET_BYTES: usize = 1316;

impl Object {
    fn new(name: &str, kind: Kind) -> Object {
        Object { name: name.to_owned(), kind, unread: BytesMut::new() }
    }

    /// A file: read from `offset` to its end, or written from `offset` on.
    pub fn file(name: &str, file: Arc<File>, offset: u64) -> Object {
        // Files generated by the kernel, as in /proc, have length 0.
        let length = file.metadata().map(|known| known.len()).ok().filter(|length| *length > offset);
        Object::extent(name, file, offset, length.unwrap_or(u64::MAX))
    }

    /// An extent of a file, to read: from `offset` to `end`, or to the end of the file if it is shorter.
    pub fn extent(name: &str, file: Arc<File>, offset: u64, end: u64) -> Object {
        Object::new(name, Kind::File(StoredFile { offset, end, ..StoredFile::new(file) }))
    }

    /// A file to write that others read [at the same time](crate::ObjectPart::Following). `progress` is the
    /// number of bytes written, at which this object starts. Several streams may write the file one after the
    /// other.
    pub fn written(name: &str, file: Arc<File>, progress: Arc<WriteProgress>) -> Object {
        let offset = progress.bytes();
        Object::new(
            name,
            Kind::File(StoredFile { offset, progress: Some(progress), ..StoredFile::new(file) }),
        )
    }

    /// A connected stream socket (TCP or Unix), a pipe, a FIFO or a terminal; or a file inherited from a
    /// shell, read or written at the offset of its descriptor.
    ///
    /// A socket is put into non-blocking mode, and urgent data stays in order among other bytes
    /// (`SO_OOBINLINE`, RFC 6093). TCP sends bytes at once (`TCP_NODELAY`): Nagle's algorithm would hold the
    /// last bytes back until the bytes before them are acknowledged, which takes 40 ms if the peer waits for
    /// them. A pipe or terminal in blocking mode is opened again, because the mode holds for every process
    /// that shares the open file: the terminal's shell, for example.
    ///
    /// # Errors
    /// `EPROTOTYPE` for a socket of datagrams or packets: a byte stream would lose their boundaries, and an
    /// empty datagram would look like the end. Otherwise failures of `fstat`, `getsockopt`, `fcntl` or
    /// `open`.
    pub fn stream(name: &str, descriptor: OwnedFd) -> io::Result<Object> {
        let kind = FileType::from_raw_mode(fstat(&descriptor)?.st_mode);
        if kind == FileType::Socket && sockopt::socket_type(&descriptor)? != SocketType::STREAM {
            return Err(Errno::PROTOTYPE.into());
        }
        let flags = fcntl_getfl(&descriptor)?;
        let descriptor = match kind {
            _ if flags.contains(OFlags::NONBLOCK) => descriptor,
            FileType::Socket => {
                fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
                descriptor
            }
            FileType::Fifo | FileType::CharacterDevice => open_again(&descriptor, flags)?,
            _ => descriptor,
        };
        if !matches!(kind, FileType::Socket | FileType::Fifo | FileType::CharacterDevice) {
            let file = StoredFile { shares_place: true, ..StoredFile::new(Arc::new(descriptor.into())) };
            return Ok(Object::new(name, Kind::File(file)));
        }
        let connection = if kind == FileType::Socket {
            Connection::of_socket(descriptor)?
        } else {
            Connection::of_pipe(descriptor)
        };
        Ok(Object::new(name, Kind::Stream(connection)))
    }

    /// Any descriptor: a connected datagram socket becomes [`Object::datagrams`], any other descriptor
    /// [`Object::stream`].
    ///
    /// # Errors
    /// Those of the two functions.
    pub fn from_fd(name: &str, descriptor: OwnedFd) -> io::Result<Object> {
        let kind = FileType::from_raw_mode(fstat(&descriptor)?.st_mode);
        if kind == FileType::Socket && sockopt::socket_type(&descriptor)? == SocketType::DGRAM {
            return Object::datagrams(name, descriptor, None, None);
        }
        Object::stream(name, descriptor)
    }

    /// Ends a connection after this many bytes, not counting bytes that [precede](Object::preceded_by) it:
    /// for messages of known length that are followed by others. No effect on other objects.
    #[must_use]
    pub fn up_to(mut self, bytes: u64) -> Object {
        if let Kind::Stream(connection) = &mut self.kind {
            connection.left = bytes;
        }
        self
    }

    /// Puts bytes in front of the object that were read from a connection before it became an object, for
    /// example together with the head of a message.
    #[must_use]
    pub fn preceded_by(mut self, bytes: BytesMut) -> Object {
        self.put_back(bytes);
        self
    }

    /// A UDP socket. As an input, datagrams are read from it; datagrams that the kernel gathered stay
    /// together. As an output, datagrams are sent to `to`, or to the connected peer. Records that are not
    /// datagrams already are packed into datagrams of at most `packet_bytes` (1,316 by default): as many
    /// whole records as fit; a byte stream is cut.
    ///
    /// # Errors
    /// Failure of `setsockopt`.
    pub fn datagrams(
        name: &str,
        socket: OwnedFd,
        to: Option<SocketAddr>,
        packet_bytes: Option<usize>,
    ) -> io::Result<Object> {
        // Linux before 5.0 does not gather datagrams.
        let gathers = datagrams::set_receive_offload(socket.as_fd(), true);
        if let Err(error) = gathers
            && error.raw_os_error() != Some(Errno::NOPROTOOPT.raw_os_error())
        {
            return Err(error);
        }
        let packet_bytes = packet_bytes.unwrap_or(PACKET_BYTES).max(1);
        let to = to.map(SocketAddrAny::from);
        Ok(Object::new(
            name,
            Kind::Datagrams(Datagrams {
                socket,
                to,
                packet_bytes,
                keeps_records: false,
                longest_cut: usize::MAX,
                is_losing: false,
                had_too_long: false,
                first_error: None,
                icmp_errors: 0,
                id: SocketId::unique(),
                cut_bytes: 0,
                reported: None,
            }),
        ))
    }

    /// Bytes in memory, to read.
    pub fn memory(name: &str, bytes: Bytes) -> Object {
        Object::new(name, Kind::Memory(bytes))
    }

    /// Memory to write to, and a handle to the written bytes. Writing more than `limit` bytes is an error.
    pub fn collect(name: &str, limit: usize) -> (Object, Collected) {
        let collected = Collected::new(limit);
        (Object::new(name, Kind::Collected(collected.clone())), collected)
    }

    /// Name of the object, for errors and tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Addresses of a UDP socket: the local address and that of the connected peer.
    pub fn addresses(&self) -> Option<(SocketAddr, Option<SocketAddr>)> {
        let Kind::Datagrams(datagrams) = &self.kind else { return None };
        let own = getsockname(&datagrams.socket).ok()?.try_into().ok()?;
        let peer = getpeername(&datagrams.socket).ok().flatten().and_then(|peer| peer.try_into().ok());
        Some((own, peer))
    }

    /// Selects whether a UDP socket takes datagrams that the kernel has joined, which is the default, or each
    /// datagram as received: the kernel then joins none for the socket, not even before they reach eBPF
    /// programs.
    ///
    /// # Errors
    /// Failure of `setsockopt`.
    pub fn take_joined_datagrams(&self, joined: bool) -> io::Result<()> {
        match &self.kind {
            Kind::Datagrams(datagrams) => datagrams::set_receive_offload(datagrams.socket.as_fd(), joined),
            _ => Ok(()),
        }
    }

    /// Returns whether bytes wait in a socket or pipe; true if unknown.
    pub(crate) fn has_arrived_bytes(&self) -> bool {
        self.descriptor().is_none_or(|descriptor| ioctl_fionread(descriptor).map_or(true, |bytes| bytes > 0))
    }

    /// Returns whether the bytes belong to a file, which other processes may write.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self.kind, Kind::File(_) | Kind::Mapping(_) | Kind::Parts(_))
    }

    /// Descriptor to watch; None if the object is always ready.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Stream(connection) => Some(connection.descriptor.as_fd()),
            Kind::Listening(listener) => Some(listener.as_fd()),
            Kind::Datagrams(datagrams) => Some(datagrams.socket.as_fd()),
            Kind::File(_) | Kind::Mapping(_) | Kind::Memory(_) | Kind::Parts(_) | Kind::Collected(_) => None,
        }
    }

    /// Returns whether the object has record boundaries of its own.
    pub(crate) fn has_records(&self) -> bool {
        matches!(self.kind, Kind::Datagrams(_))
    }

    pub(crate) fn icmp_errors(&self) -> u64 {
        if let Kind::Datagrams(datagrams) = &self.kind { datagrams.icmp_errors } else { 0 }
    }

    /// Takes the reason of the first datagram that was too long; returns it once.
    pub(crate) fn take_first_error(&mut self) -> Option<String> {
        if let Kind::Datagrams(datagrams) = &mut self.kind { datagrams.first_error.take() } else { None }
    }

    pub(crate) fn connection_mut(&mut self) -> Option<&mut Connection> {
        if let Kind::Stream(connection) = &mut self.kind { Some(connection) } else { None }
    }

    /// Signals the end to the peer of a connection (`shutdown`), and keeps a file that was created for the
    /// stream.
    pub(crate) fn finish(&self) -> Result<(), ObjectError> {
        match &self.kind {
            Kind::Stream(Connection { descriptor, is_socket: true, .. }) => {
                let done = rustix::net::shutdown(descriptor, rustix::net::Shutdown::Write);
                done.map_err(|errno| self.error("shutdown", errno))
            }
            Kind::File(StoredFile { provisional: Some(file), .. }) => {
                file.keep();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Bytes that a TCP connection has taken and its peer has not acknowledged, counting the FIN as one; 0
    /// for other objects, or if unknown. An error of the connection stays pending: it is reported once, to
    /// the next read or write.
    pub(crate) fn unacknowledged(&self) -> u32 {
        self.tcp().map_or(0, |descriptor| socket::unacknowledged(descriptor.as_fd()).unwrap_or(0))
    }

    /// Same as [`unacknowledged`](Object::unacknowledged), after the end was sent; returns an error if the
    /// connection was reset.
    pub(crate) fn undelivered(&self) -> Result<u32, ObjectError> {
        let Some(descriptor) = self.tcp() else { return Ok(0) };
        let failed = |errno| self.error("shutdown", errno);
        sockopt::socket_error(descriptor).map_err(failed)?.map_err(failed)?;
        let io_failed = |error| failed(errno_of(&error));
        let unacknowledged = socket::unacknowledged(descriptor.as_fd()).map_err(io_failed)?;
        // Another reader of the connection may have consumed the error of the reset.
        if unacknowledged > 0 && socket::is_closed(descriptor.as_fd()).map_err(io_failed)? {
            return Err(failed(Errno::CONNRESET));
        }
        Ok(unacknowledged)
    }

    fn tcp(&self) -> Option<&OwnedFd> {
        let Kind::Stream(Connection { descriptor, is_socket: true, .. }) = &self.kind else { return None };
        matches!(sockopt::socket_protocol(descriptor), Ok(Some(ipproto::TCP))).then_some(descriptor)
    }

    /// Closes a connection, so that its peer sees the end now. Other objects stay open: closing a file, or
    /// removing the name of a socket, may block.
    pub(crate) fn close_connection(&mut self) {
        if matches!(self.kind, Kind::Stream(_) | Kind::Datagrams(_)) {
            self.kind = Kind::Memory(Bytes::new());
        }
    }

    /// Puts bytes that were read and not used back, in front of the kept bytes.
    pub(crate) fn put_back(&mut self, mut unused: BytesMut) {
        unused.unsplit(self.unread.split());
        self.unread = unused;
    }

    pub(crate) fn error(&self, call: &'static str, errno: Errno) -> ObjectError {
        ObjectError { name: self.name.clone(), call, errno }
    }
}

impl Connection {
    /// A connection over a connected stream socket, in non-blocking mode.
    pub(crate) fn of_socket(descriptor: OwnedFd) -> Result<Connection, Errno> {
        sockopt::set_socket_oobinline(&descriptor, true)?;
        match sockopt::set_tcp_nodelay(&descriptor, true) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOPROTOOPT) => {} // not TCP
            Err(errno) => return Err(errno),
        }
        Ok(Connection { is_socket: true, ..Connection::of_pipe(descriptor) })
    }

    /// A connection over a pipe or terminal.
    fn of_pipe(descriptor: OwnedFd) -> Connection {
        Connection { descriptor, is_socket: false, left: u64::MAX, has_urgent: false }
    }
}

impl StoredFile {
    fn new(file: Arc<File>) -> StoredFile {
        StoredFile {
            file,
            shares_place: false,
            offset: 0,
            end: u64::MAX,
            warm_until: 0,
            warm_at: Instant::now(),
            progress: None,
            follows: None,
            provisional: None,
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Object").field(&self.name).finish()
    }
}

/// Reopens a pipe or terminal in non-blocking mode.
fn open_again(descriptor: &OwnedFd, flags: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let flags = flags & OFlags::ACCMODE | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}
