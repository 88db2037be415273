//! Outcomes of reading an object, and of sending from a part of one.

use std::sync::Arc;

use rustix::io::Errno;

use super::cold::Cold;
use crate::write_progress::WriteProgress;

/// Result of a read.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    /// Bytes of a byte stream, appended to the buffer.
    Bytes(usize),
    /// Datagrams, appended to the buffer.
    Datagrams {
        bytes: usize,
        /// Length of each datagram except the last, which may be shorter.
        datagram_bytes: usize,
    },
    /// Datagrams that cannot be used.
    Unusable { bytes: usize, why: &'static str },
    /// No bytes now.
    Nothing,
    /// Nothing can be read before this event.
    Blocked(Awaited),
    /// The end.
    End,
}

/// Event that a read waits for.
#[derive(Debug)]
pub(crate) enum Awaited {
    /// Pages that a storage thread reads.
    Pages(Cold),
    /// The writer of the file, of which no more than this many bytes are written yet.
    Writer(Arc<WriteProgress>, u64),
}

/// Reason why nothing was read.
pub(crate) enum Unread {
    Blocked(Awaited),
    /// A failed call and its error.
    Failed(&'static str, Errno),
}

impl From<(&'static str, Errno)> for Unread {
    fn from((call, errno): (&'static str, Errno)) -> Unread {
        Unread::Failed(call, errno)
    }
}

pub(super) type ReadResult = Result<ReadOutcome, Unread>;

/// Result of [`ObjectPart::send`](crate::ObjectPart::send).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendOutcome {
    /// Number of bytes sent.
    pub bytes: usize,
    /// True if the connection is known to be full now.
    pub fills_socket: bool,
}

/// Name of the failed call, for a file that ends before its part does.
pub(crate) const TRUNCATED: &str = "reading a truncated file";
