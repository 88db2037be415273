//! The ways to send a train, by name.

use std::fmt;
use std::str::FromStr;

use crate::{Headers, Medium, Scratch, SendError, Taken, Train, UdpSink};
use crate::{gso_writev, read_writev, sendmmsg, wire_sendfile, wire_uring};

/// A way to take trains from storage to a UDP socket, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Ready packets from registered memory by an io_uring and UDP_SEGMENT: many trains in a call, no copy, headers as stored.
    WireUring,
    /// Ready packets by `sendfile` and UDP_SEGMENT: a call per train, no copy, headers as stored.
    WireSendfile,
    /// Headers and mapping by `sendmsg` and UDP_SEGMENT: a call per train, one copy.
    GsoWritev,
    /// Headers and mapping by `sendmmsg`: a call per train, one copy, the network stack paid for each packet.
    Sendmmsg,
    /// `pread` and `writev` for each packet: works everywhere.
    ReadWritev,
}

impl Path {
    /// All of them, cheapest first.
    pub const ALL: [Path; 5] =
        [Path::WireUring, Path::WireSendfile, Path::GsoWritev, Path::Sendmmsg, Path::ReadWritev];

    /// Those that a server's choice is made from, cheapest first; the others are there to be measured and to be asked for.
    pub const SERVING: [Path; 5] =
        [Path::WireUring, Path::WireSendfile, Path::GsoWritev, Path::Sendmmsg, Path::ReadWritev];

    /// The name used in options, output and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Path::WireUring => "wire_uring",
            Path::WireSendfile => "wire_sendfile",
            Path::GsoWritev => "gso_writev",
            Path::Sendmmsg => "sendmmsg",
            Path::ReadWritev => "read_writev",
        }
    }

    /// Whether it needs UDP_SEGMENT on the socket.
    pub fn segments(self) -> bool {
        matches!(self, Path::WireUring | Path::WireSendfile | Path::GsoWritev)
    }

    /// Whether it needs a copy of the medium in memory that the thread's ring holds. Without one, trains leave by the next path.
    pub fn needs_hot_memory(self) -> bool {
        self == Path::WireUring
    }

    /// Whether payload is sent by reference, which pays only where the device computes checksums.
    pub(crate) fn refers_to_pages(self) -> bool {
        matches!(self, Path::WireUring | Path::WireSendfile)
    }

    /// The path to step down to when a route cannot do this one. Those that segment fail for the same reasons, but for
    /// `wire_uring`, which a protocol may refuse alone.
    pub fn next(self) -> Option<Path> {
        match self {
            Path::WireUring => Some(Path::WireSendfile),
            Path::WireSendfile | Path::GsoWritev => Some(Path::Sendmmsg),
            Path::Sendmmsg => Some(Path::ReadWritev),
            Path::ReadWritev => None,
        }
    }

    /// The path that really sends a train with such headers from such a medium: stored headers cannot be changed by those that
    /// send ready packets, nor can a packet's head be left out; and `wire_uring` needs the medium's copy in the ring of
    /// `scratch`.
    #[inline]
    pub fn for_train(self, train: &Train, headers: Headers, medium: &Medium, scratch: &Scratch) -> Path {
        match self {
            Path::WireUring | Path::WireSendfile if headers != Headers::Stored || train.skip > 0 => {
                Path::GsoWritev
            }
            Path::WireUring if !scratch.holds(medium, train.extent()) => Path::WireSendfile,
            path => path,
        }
    }

    /// Sends the train or its first packets; answers how many. Never blocks, allocates nothing.
    ///
    /// # Errors
    /// [`SendError`] says what to do about each; none of the packets was sent.
    #[inline]
    pub fn send(
        self,
        sink: &UdpSink,
        medium: &Medium,
        train: &Train,
        headers: Headers,
        scratch: &mut Scratch,
    ) -> Result<u32, SendError> {
        self.for_train(train, headers, medium, scratch).send_as_is(sink, medium, train, headers, scratch)
    }

    /// As `send`, but a train whose path can queue is only queued, and answered with `token` (any number but `u64::MAX`) by
    /// [`Scratch::flush`], which sends all that is queued in one call. The answer is for all of the train or none of it.
    ///
    /// # Errors
    /// As `send`; [`SendError::Full`] also if the queue has no room before the next flush.
    #[inline]
    pub fn enqueue(
        self,
        sink: &UdpSink,
        medium: &Medium,
        train: &Train,
        headers: Headers,
        scratch: &mut Scratch,
        token: u64,
    ) -> Result<Taken<u32>, SendError> {
        match self.for_train(train, headers, medium, scratch) {
            Path::WireUring => {
                wire_uring::enqueue(sink, medium, train, scratch, token).map(|()| Taken::Queued)
            }
            path => path.send_as_is(sink, medium, train, headers, scratch).map(Taken::Sent),
        }
    }

    /// Sends by this path, which can send this train.
    #[inline]
    fn send_as_is(
        self,
        sink: &UdpSink,
        medium: &Medium,
        train: &Train,
        headers: Headers,
        scratch: &mut Scratch,
    ) -> Result<u32, SendError> {
        match self {
            Path::WireUring => wire_uring::send(sink, medium, train, scratch),
            Path::WireSendfile => wire_sendfile::send(sink, medium, train),
            Path::GsoWritev => gso_writev::send(sink, medium, train, headers, scratch),
            Path::Sendmmsg => sendmmsg::send(sink, medium, train, headers, scratch),
            Path::ReadWritev => read_writev::send(sink, medium, train, headers, scratch),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that is no data path's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no data path is called {0:?}; there are {names}", names = Path::ALL.map(Path::name).join(", "))]
pub struct UnknownPath(String);

impl FromStr for Path {
    type Err = UnknownPath;

    fn from_str(name: &str) -> Result<Path, UnknownPath> {
        Path::ALL.into_iter().find(|path| path.name() == name).ok_or_else(|| UnknownPath(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for path in Path::ALL {
            assert_eq!(path.name().parse(), Ok(path));
        }
        assert!("fastest".parse::<Path>().unwrap_err().to_string().contains("wire_sendfile"));
    }
}
