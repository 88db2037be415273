//! Data paths for blocks, by name: what the papers call download.

use std::fmt;
use std::str::FromStr;

/// Data path for blocks of a file, without headers: to a TCP connection, or a datagram or a train at a time
/// to a UDP socket.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::{TcpListener, TcpStream};
/// use wirepath_datapath::{BlockPath, BlockSink, Extent, MappedFile, SendContext};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut file = tempfile::tempfile()?;
/// file.write_all(b"a file of some bytes")?;
/// let file = MappedFile::new(file, 20)?;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let socket = TcpStream::connect(listener.local_addr()?)?;
/// let sink = BlockSink::tcp(socket, BlockPath::Sendfile)?;
/// let extent = Extent { offset: 2, length: 4 };
/// assert_eq!(BlockPath::Sendfile.send(&sink, &file, extent, &mut SendContext::default())?, 4);
///
/// let mut received = [0; 4];
/// listener.accept()?.0.read_exact(&mut received)?;
/// assert_eq!(&received, b"file");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockPath {
    /// An io_uring sends from registered memory: to UDP trains, many in a call; to TCP a call. No copy.
    UringSend,
    /// MSG_ZEROCOPY from a mapping: a call, no copy, pages are lent.
    MmapZerocopy,
    /// As `mmap_zerocopy` where a loan is cheaper than a copy, else as `mmap_send`.
    Loan,
    /// `sendfile`: a call, no copy.
    Sendfile,
    /// `send` from a mapping: a call, a copy.
    MmapSend,
    /// `pread` and `send`: two calls, two copies.
    ReadWrite,
    /// A run of datagrams from the file by the kernel module: a call for any number of them, no copy.
    Ksendfile,
    /// The same from a mapping.
    Kmsend,
    /// A datagram from a mapping by the kernel module: a call, no copy, no loan.
    MmapMsend,
}

impl BlockPath {
    /// All of them.
    pub const ALL: [BlockPath; 9] = [
        BlockPath::UringSend,
        BlockPath::MmapZerocopy,
        BlockPath::Loan,
        BlockPath::Sendfile,
        BlockPath::MmapSend,
        BlockPath::ReadWrite,
        BlockPath::Ksendfile,
        BlockPath::Kmsend,
        BlockPath::MmapMsend,
    ];

    /// The name used in options, output and documentation.
    pub fn name(self) -> &'static str {
        match self {
            BlockPath::MmapZerocopy => "mmap_zerocopy",
            BlockPath::Loan => "loan",
            BlockPath::UringSend => "uring_send",
            BlockPath::Sendfile => "sendfile",
            BlockPath::MmapSend => "mmap_send",
            BlockPath::ReadWrite => "read_write",
            BlockPath::Ksendfile => "ksendfile",
            BlockPath::Kmsend => "kmsend",
            BlockPath::MmapMsend => "mmap_msend",
        }
    }

    /// Returns whether it needs a copy of the file in memory that is registered with the thread's ring.
    pub fn needs_hot_memory(self) -> bool {
        self == BlockPath::UringSend
    }

    /// Returns whether it sends trains of datagrams, which needs UDP_SEGMENT on a UDP socket; the others send
    /// a datagram a call.
    pub fn segments(self) -> bool {
        match self {
            BlockPath::UringSend | BlockPath::MmapZerocopy | BlockPath::Loan => true,
            BlockPath::Sendfile | BlockPath::MmapSend | BlockPath::ReadWrite => false,
            BlockPath::Ksendfile | BlockPath::Kmsend | BlockPath::MmapMsend => false,
        }
    }

    /// Returns whether one call takes any number of datagrams, so that an extent can be as long as a file.
    pub fn takes_runs(self) -> bool {
        matches!(self, BlockPath::Ksendfile | BlockPath::Kmsend)
    }

    /// Returns whether it needs the kernel module ([`crate::SendContext::open_module`]), which sends such
    /// blocks over UDP only.
    pub fn needs_module(self) -> bool {
        self.takes_runs() || self == BlockPath::MmapMsend
    }

    /// Returns whether it lends pages to the kernel, which the sink then counts: [`crate::BlockSink::loans`].
    pub fn lends(self) -> bool {
        matches!(self, BlockPath::MmapZerocopy | BlockPath::Loan)
    }
}

impl fmt::Display for BlockPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that is no such path's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown block path {0:?}: expected {names}", names = BlockPath::ALL.map(BlockPath::name).join(", "))]
pub struct UnknownBlockPath(String);

impl FromStr for BlockPath {
    type Err = UnknownBlockPath;

    fn from_str(name: &str) -> Result<BlockPath, UnknownBlockPath> {
        BlockPath::ALL
            .into_iter()
            .find(|path| path.name() == name)
            .ok_or_else(|| UnknownBlockPath(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for path in BlockPath::ALL {
            assert_eq!(path.name().parse(), Ok(path));
        }
        assert!("fastest".parse::<BlockPath>().unwrap_err().to_string().contains("sendfile"));
    }
}
