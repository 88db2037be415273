//! Sending of memory ranges by one call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::checked;
use crate::control::empty_message;

/// Flags: never wait for room, never raise SIGPIPE.
pub(crate) const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Copy or loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The kernel copies the ranges.
    Copy,
    /// The kernel holds the pages until they are sent: MSG_ZEROCOPY.
    Lend,
}

impl Mode {
    /// Flags of a call.
    pub(crate) fn flags(self) -> libc::c_int {
        match self {
            Mode::Copy => FLAGS,
            Mode::Lend => FLAGS | libc::MSG_ZEROCOPY,
        }
    }
}

/// Sends the range of `vector`; returns the number of bytes sent.
pub(crate) fn send(socket: BorrowedFd<'_>, vector: libc::iovec, mode: Mode) -> io::Result<usize> {
    // SAFETY: the kernel only reads the range and answers `EFAULT` for what is not mapped. What a loan goes
    // on reading after the call are pages that it holds itself.
    checked(unsafe { libc::send(socket.as_raw_fd(), vector.iov_base, vector.iov_len, mode.flags()) })
}

/// Sends the concatenated ranges of the vectors, with these flags; returns the number of bytes sent.
pub(crate) fn send_all(
    socket: BorrowedFd<'_>,
    vectors: &mut [libc::iovec],
    flags: libc::c_int,
) -> io::Result<usize> {
    let mut message = empty_message();
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = vectors.len();
    // SAFETY: the vectors outlive the call; the kernel only reads what they point to, and answers `EFAULT` for
    // what is not mapped.
    checked(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) })
}
