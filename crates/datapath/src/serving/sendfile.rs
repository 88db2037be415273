//! `sendfile`: an extent of a file to a socket, pages by reference.
//!
//! To a TCP connection as much as it takes; to a UDP socket a datagram or train (no copy from Linux 6.5 on).

use std::fs::File;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::{Extent, MappedFile, SendError, cork};

const CALL: &str = "sendfile";

/// Sends up to `length` bytes of `file` from `offset`, as much as the connection takes now; answers how many,
/// at least one. The socket must be non-blocking.
///
/// # Errors
/// [`SendError::Full`] if it takes none now, [`SendError::Storage`] if the file ends before `offset` or
/// cannot be read, [`SendError::Other`] if the connection is gone.
pub fn to_stream(socket: impl AsFd, file: &File, offset: u64, length: usize) -> Result<usize, SendError> {
    let mut position = offset;
    match rustix::fs::sendfile(socket, file, Some(&mut position), length) {
        Ok(0) => Err(SendError::Storage { call: CALL, errno: Errno::NODATA }),
        Ok(sent) => Ok(sent),
        Err(Errno::AGAIN) => Err(SendError::Full { call: CALL }),
        Err(errno @ (Errno::IO | Errno::OVERFLOW)) => Err(SendError::Storage { call: CALL, errno }),
        Err(errno) => Err(SendError::Other { call: CALL, errno }),
    }
}

/// Sends the extent to a UDP socket: as a datagram or train, or as what completes one that waits there.
/// Answers whether it is sent. If not, nothing waits any more and the extent can be read, but why the network
/// refused it only another call can say.
#[inline]
pub(crate) fn to_datagrams(
    socket: impl AsFd,
    file: &MappedFile,
    extent: Extent,
    buffer: &mut Buffer,
) -> Result<bool, SendError> {
    let mut offset = extent.offset;
    match rustix::fs::sendfile(&socket, file.file(), Some(&mut offset), extent.length) {
        Ok(sent) if sent == extent.length => Ok(true),
        Ok(sent) => in_part(socket, file, extent, sent, buffer).map(|()| false),
        Err(errno) => Err(of_nothing(CALL, file, extent, errno, buffer)),
    }
}

/// Error of a `call` that took none of an extent. Reading tells `EIO` of a disk from that of a route.
#[cold]
pub(crate) fn of_nothing(
    call: &'static str,
    file: &MappedFile,
    extent: Extent,
    errno: Errno,
    buffer: &mut Buffer,
) -> SendError {
    let read = match errno {
        Errno::IO => file.read(extent.offset, buffer.first(extent.length)),
        _ => Ok(()),
    };
    read.err().unwrap_or_else(|| SendError::of_udp(call, errno))
}

/// Finds out why only `taken` bytes were taken, and leaves nothing of them waiting.
///
/// Either the file ends inside the extent, and what was taken has left, which for a receiver is loss; or it
/// cannot be read there, and what was taken waits in the socket. Or the network refused it. The kernel hands
/// it over in parts (pages before Linux 6.5, since then the 16 pages that a pipe holds), decides on the last
/// one, and drops them all; `sendfile` then tells what was taken before, and not why the rest was not.
#[cold]
fn in_part(
    socket: impl AsFd,
    file: &MappedFile,
    extent: Extent,
    taken: usize,
    buffer: &mut Buffer,
) -> Result<(), SendError> {
    cork::discard(socket, buffer);
    file.read(extent.offset + taken as u64, buffer.first(extent.length - taken))
}
