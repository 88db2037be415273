//! Reads into the spare capacity of a growing buffer, without filling it with zeros first.

use std::io;
use std::os::fd::BorrowedFd;

use bytes::{BufMut, BytesMut};
use rustix::net::RecvFlags;

/// Source of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Stream socket: available data, without waiting.
    Socket,
    /// Stream socket: available data, without waiting; the data stays in the socket.
    Peeked,
    /// Pipe, terminal or other stream: available data; may wait if the descriptor is blocking.
    Stream,
    /// File, at this offset.
    File(u64),
}

/// Minimum spare capacity to read into: small reads share a block, large reads get a new block.
const LEAST: usize = 16 * 1024;

/// Reads up to `room` bytes and appends them to `buffer`; returns their number, 0 at the end.
///
/// # Errors
/// `EAGAIN` if there is no data yet; else errors of `recv`, `read` or `pread`.
pub fn append(
    from: From,
    descriptor: BorrowedFd<'_>,
    buffer: &mut BytesMut,
    room: usize,
) -> io::Result<usize> {
    let spare = buffer.capacity() - buffer.len();
    // A block without other owners is reused from its beginning.
    if spare < room && !buffer.try_reclaim(room) && spare < room.min(LEAST) {
        buffer.reserve(room);
    }
    let room = room.min(buffer.capacity() - buffer.len());
    // SAFETY: rustix writes initialised bytes to it only.
    let spare = unsafe { buffer.chunk_mut().as_uninit_slice_mut() };
    let spare = &mut spare[..room];
    let (read, _) = match from {
        From::Socket => {
            let ((read, rest), _) = rustix::net::recv(descriptor, spare, RecvFlags::DONTWAIT)?;
            (read.len(), rest.len())
        }
        From::Peeked => {
            let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
            let ((read, rest), _) = rustix::net::recv(descriptor, spare, flags)?;
            (read.len(), rest.len())
        }
        From::Stream => rustix::io::read(descriptor, spare).map(|(read, rest)| (read.len(), rest.len()))?,
        From::File(offset) => {
            rustix::io::pread(descriptor, spare, offset).map(|(read, rest)| (read.len(), rest.len()))?
        }
    };
    // SAFETY: the kernel wrote this many bytes, at most `room`, to the front of the spare capacity.
    unsafe { buffer.advance_mut(read) };
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_come_behind_what_is_there() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut buffer = BytesMut::from(&b"ab"[..]);
        assert_eq!(append(From::File(3), file.as_fd(), &mut buffer, 4).unwrap(), 4);
        assert_eq!(append(From::File(10), file.as_fd(), &mut buffer, 4).unwrap(), 0);
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"cd").unwrap();
        assert_eq!(append(From::Socket, far.as_fd(), &mut buffer, 100).unwrap(), 2);
        let error = append(From::Socket, far.as_fd(), &mut buffer, 100).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        near.write_all(b"ef").unwrap();
        let mut peeked = BytesMut::new();
        assert_eq!(append(From::Peeked, far.as_fd(), &mut peeked, 100).unwrap(), 2);
        assert_eq!(peeked, &b"ef"[..]);
        assert_eq!(append(From::Stream, far.as_fd(), &mut buffer, 1).unwrap(), 1);
        assert_eq!(buffer, &b"ab3456cde"[..]);
    }
}
