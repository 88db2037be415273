//! Kernel calls and copies, counted.

use serde::{Deserialize, Serialize};

use super::{PathKind, Transport};

/// Counts of a path of the papers' tables that sent some packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// The data path.
    pub path: PathKind,
    /// UDP or TCP.
    pub transport: Transport,
    /// Payload bytes of a packet; null for a whole file in one call.
    pub size: Option<u64>,
    /// Packets, or files, that were sent.
    pub packets: u64,
    /// Payload of all of them.
    pub payload_bytes: u64,
    /// RTP headers of all of them.
    pub header_bytes: u64,
    /// Kernel calls, the `mmap` of the file not among them.
    pub calls: u64,
    /// Copies by the processor, by the kernel's function that made them; of payload and of headers.
    pub copies: Vec<Copies>,
}

/// Copies by one function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// Its name.
    pub function: String,
    /// Number of calls.
    pub calls: u64,
    /// Bytes that it copied, all calls together.
    pub bytes: u64,
}

impl Counted {
    /// Copies by all functions together.
    pub fn copies(&self) -> u64 {
        self.copies.iter().map(|copies| copies.calls).sum()
    }

    /// Bytes that were copied, by all functions together.
    pub fn copied_bytes(&self) -> u64 {
        self.copies.iter().map(|copies| copies.bytes).sum()
    }

    /// Copies by one function.
    pub fn copies_by(&self, function: &str) -> u64 {
        self.copies.iter().filter(|copies| copies.function == function).map(|copies| copies.calls).sum()
    }
}
