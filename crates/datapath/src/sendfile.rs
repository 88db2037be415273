//! `sendfile`: an extent of a file to a socket, pages by reference.
//!
//! To a TCP connection as much as it takes in one call; to a UDP socket one datagram (by reference from Linux 6.5 on).
//! A datagram that the kernel may give a wrong checksum is sent from the mapping, with a copy.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::{BlockSink, Extent, Medium, SendError, mmap_send};

const CALL: &str = "sendfile";

/// Sends up to `length` bytes of `file` from `offset`, as much as the connection takes now; answers how many, at least one.
/// The socket must be non-blocking.
///
/// # Errors
/// [`SendError::Full`] if it takes none now, [`SendError::Storage`] if the file ends before `offset` or cannot be read,
/// [`SendError::Other`] if the connection is gone.
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

/// Sends the extent, or its first bytes if the sink is a stream; answers how many.
#[inline]
pub(crate) fn send(sink: &BlockSink, medium: &Medium, extent: Extent) -> Result<usize, SendError> {
    if sink.is_stream() {
        return to_stream(&sink.socket, &medium.file, extent.offset, extent.length);
    }
    if extent.confuses_checksums() {
        return mmap_send::send(sink, medium, extent);
    }
    let mut offset = extent.offset;
    match rustix::fs::sendfile(&sink.socket, &medium.file, Some(&mut offset), extent.length) {
        Ok(sent) if sent == extent.length => Ok(sent),
        Ok(_) => Err(SendError::Storage { call: CALL, errno: Errno::NODATA }),
        Err(errno) => Err(SendError::of_udp(CALL, errno)),
    }
}
