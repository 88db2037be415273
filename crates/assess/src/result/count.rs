//! Counts of kernel calls and copies.

use serde::{Deserialize, Serialize};

use super::{PathKind, Transport};

/// Counts of one path of the papers' tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Data path.
    pub path: PathKind,
    /// UDP or TCP.
    pub transport: Transport,
    /// Payload bytes of a packet; null for a whole file in one call.
    pub size: Option<u64>,
    /// Number of packets, or files, sent.
    pub packets: u64,
    /// Payload of all packets.
    pub payload_bytes: u64,
    /// RTP headers of all packets.
    pub header_bytes: u64,
    /// Kernel calls, without the `mmap` of the file.
    pub calls: u64,
    /// Copies by the processor, of payload and headers, by kernel function.
    pub copies: Vec<Copies>,
}

/// Copies by one kernel function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// Name of the function.
    pub function: String,
    /// Number of calls.
    pub calls: u64,
    /// Bytes copied by all calls.
    pub bytes: u64,
}

impl Counted {
    /// Number of copies by all functions.
    pub fn copies(&self) -> u64 {
        self.copies.iter().map(|copies| copies.calls).sum()
    }

    /// Bytes copied by all functions.
    pub fn copied_bytes(&self) -> u64 {
        self.copies.iter().map(|copies| copies.bytes).sum()
    }

    /// Number of copies by one function.
    pub fn copies_by(&self, function: &str) -> u64 {
        self.copies.iter().filter(|copies| copies.function == function).map(|copies| copies.calls).sum()
    }
}
