//! The ways to send a train, by name.

use std::fmt;
use std::str::FromStr;

use crate::{Headers, Medium, Scratch, SendError, Train, UdpSink};
use crate::{gso_writev, read_writev, sendmmsg, wire_sendfile};

/// A way to take trains from storage to a UDP socket, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
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
    pub const ALL: [Path; 4] = [Path::WireSendfile, Path::GsoWritev, Path::Sendmmsg, Path::ReadWritev];

    /// Those that a server's choice is made from, cheapest first; the others are there to be measured and to be asked for.
    pub const SERVING: [Path; 4] = [Path::WireSendfile, Path::GsoWritev, Path::Sendmmsg, Path::ReadWritev];

    /// The name used in options, output and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Path::WireSendfile => "wire_sendfile",
            Path::GsoWritev => "gso_writev",
            Path::Sendmmsg => "sendmmsg",
            Path::ReadWritev => "read_writev",
        }
    }

    /// Whether it needs UDP_SEGMENT on the socket.
    pub fn segments(self) -> bool {
        matches!(self, Path::WireSendfile | Path::GsoWritev)
    }

    /// Whether one call takes several packets.
    pub fn batches(self) -> bool {
        self.segments() || self == Path::Sendmmsg
    }

    /// The path to step down to when a route cannot do this one. Both that segment fail for the same reasons.
    pub fn next(self) -> Option<Path> {
        match self {
            Path::WireSendfile | Path::GsoWritev => Some(Path::Sendmmsg),
            Path::Sendmmsg => Some(Path::ReadWritev),
            Path::ReadWritev => None,
        }
    }

    /// The path that really sends a train with such headers: stored ones cannot be changed by `wire_sendfile`, nor can a
    /// packet's head be left out.
    pub fn for_train(self, train: &Train, headers: Headers) -> Path {
        match self {
            Path::WireSendfile if headers != Headers::Stored || train.skip > 0 => Path::GsoWritev,
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
        match self.for_train(train, headers) {
            Path::WireSendfile => wire_sendfile::send(sink, medium, train, scratch),
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
