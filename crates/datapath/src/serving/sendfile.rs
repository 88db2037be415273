//! `sendfile`: sends an extent of a file to a socket, pages by reference.
//!
//! To a TCP connection as much as it accepts; to a UDP socket a datagram or train (no copy from Linux 6.5
//! on).

use std::fs::File;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::{Extent, MappedFile, SendError, cork};

const CALL: &str = "sendfile";

/// Sends up to `length` bytes of `file` from `offset`, as many as the connection accepts now; returns how
/// many, at least one. The socket must be non-blocking.
///
/// # Errors
///
/// [`SendError::Full`] if it accepts none now, [`SendError::Storage`] if the file ends before `offset` or
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

/// Sends the extent to a UDP socket: as a datagram or train, or as the rest of a datagram that waits there.
/// Returns whether it was sent. If not, nothing waits any more and the extent can be read; only another call
/// can tell why the network refused it.
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

/// Error of a `call` that sent none of an extent. Reading distinguishes an `EIO` of a disk from that of a
/// route.
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

/// Finds out why only `taken` bytes were sent, and leaves none of them waiting.
///
/// Either the file ends inside the extent, and the bytes before its end have left, which is a loss for the
/// receiver. Or it cannot be read there, and the bytes before it wait in the socket. Or the network refused
/// it: the kernel passes the extent on in parts (pages before Linux 6.5, since then the 16 pages that a pipe
/// holds), gets the refusal at the last part, and drops them all; `sendfile` then returns the bytes of the
/// earlier parts, and not the reason.
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
