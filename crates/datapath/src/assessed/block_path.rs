//! Data paths for blocks, by name: the downloads of the papers. Servers and streams use none of them.

use crate::names::paths;

paths! {
    /// Data path for blocks of a file: to a TCP connection, or as datagrams or trains to a UDP socket.
    BlockPath {
        /// An io_uring sends from registered memory: to UDP trains, many in a call; to TCP a call. No copy.
        UringSend = "uring_send",
        /// MSG_ZEROCOPY from a mapping: a call, no copy, pages are lent.
        MmapZerocopy = "mmap_zerocopy",
        /// Like `mmap_zerocopy` if a loan is cheaper than a copy, else like `mmap_send`.
        Loan = "loan",
        /// `sendfile`: a call, no copy.
        Sendfile = "sendfile",
        /// `send` from a mapping: a call, a copy.
        MmapSend = "mmap_send",
        /// `pread` and `send`: two calls, two copies.
        ReadWrite = "read_write",
        /// A run of datagrams from the file by the kernel module: a call for any number of them, no copy.
        Ksendfile = "ksendfile",
        /// The same from a mapping.
        Kmsend = "kmsend",
        /// A datagram from a mapping by the kernel module: a call, no copy, no loan.
        MmapMsend = "mmap_msend",
    }
}

impl BlockPath {
    /// Returns whether it needs a copy of the file in memory registered with the thread's ring.
    pub fn needs_hot_memory(self) -> bool {
        self == BlockPath::UringSend
    }

    /// Returns whether it needs an io_uring of the thread.
    pub fn needs_ring(self) -> bool {
        self.needs_hot_memory()
    }

    /// Returns whether it sends trains of datagrams, which needs UDP_SEGMENT on a UDP socket.
    pub fn segments(self) -> bool {
        self.lends() || self == BlockPath::UringSend
    }

    /// Returns whether one call sends any number of datagrams, so that an extent can be as long as a file.
    pub fn takes_runs(self) -> bool {
        matches!(self, BlockPath::Ksendfile | BlockPath::Kmsend)
    }

    /// Returns whether it needs the kernel module, and so a UDP socket.
    pub fn needs_module(self) -> bool {
        self.takes_runs() || self == BlockPath::MmapMsend
    }

    /// Returns whether it lends pages to the kernel, which the sink then counts: [`crate::BlockSink::loans`].
    pub fn lends(self) -> bool {
        matches!(self, BlockPath::MmapZerocopy | BlockPath::Loan)
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
