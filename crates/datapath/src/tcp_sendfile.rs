//! TCP `sendfile`: an extent of a file to a connection, pages by reference.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::sendfile;
use rustix::io::Errno;

use crate::SendError;

/// Sends up to `length` bytes of `file` from `offset`, as much as the connection takes now; answers how many, at least one.
/// The socket must be non-blocking.
///
/// # Errors
/// [`SendError::Full`] if it takes none now, [`SendError::Storage`] if the file ends before `offset` or cannot be read,
/// [`SendError::Other`] if the connection is gone.
pub fn send(socket: impl AsFd, file: &File, offset: u64, length: usize) -> Result<usize, SendError> {
    const CALL: &str = "sendfile";
    let mut position = offset;
    match sendfile(socket, file, Some(&mut position), length) {
        Ok(0) => Err(SendError::Storage { call: CALL, errno: Errno::NODATA }),
        Ok(sent) => Ok(sent),
        Err(Errno::AGAIN) => Err(SendError::Full { call: CALL }),
        Err(errno @ (Errno::IO | Errno::OVERFLOW)) => Err(SendError::Storage { call: CALL, errno }),
        Err(errno) => Err(SendError::Other { call: CALL, errno }),
    }
}
