//! Use of io_uring by playbacks.

/// Use of an io_uring by each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingUse {
    /// None: no thread opens one.
    Never,
    /// Used by playbacks whose path is `wire_uring` or `wire_mapping`, and over TCP, whether the kernel copies or
    /// not; and by playbacks with any other path that sends trains, until the kernel copies what they send.
    Always {
        /// True if trains are also sent from the mapping of their file, and not only from registered memory.
        maps: bool,
    },
    /// Used by playbacks with any path that sends trains, until the kernel copies what they send, as it does
    /// for receivers on this host or in its containers. It needs Linux 6.2, which reports the copies.
    UnlessCopied {
        /// True if trains are also sent from the mapping of their file, and not only from registered memory.
        maps: bool,
    },
}

impl RingUse {
    pub(crate) fn maps(self) -> bool {
        match self {
            RingUse::Never => false,
            RingUse::Always { maps } | RingUse::UnlessCopied { maps } => maps,
        }
    }
}
