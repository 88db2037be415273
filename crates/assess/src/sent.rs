//! Counts of one run.

use wirepath_datapath::LoanCounts;

/// Counts of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Payload in bytes, without RTP headers and framing.
    pub(crate) bytes: u64,
    /// Packets, or blocks of a stream.
    pub(crate) packets: u64,
    /// Bytes with RTP headers and framing: the payload of UDP or TCP.
    pub(crate) transport_bytes: u64,
    /// Largest number of packets in one call.
    pub(crate) longest_train: u32,
    /// Waits for room in the socket.
    pub(crate) waits: u64,
    /// Parts of blocks that a path took at once: whole blocks, if the connection always had room.
    pub(crate) takes: u64,
    /// Sends of the rest of a frame that a connection had accepted in part.
    pub(crate) cuts: u64,
    /// Flushes of the queue.
    pub(crate) flushes: u64,
    /// Sends by reference that the kernel turned into copies; `None` if the path makes none, or the kernel
    /// does not report them.
    pub(crate) copied: Option<u64>,
    /// Loans and copies of paths that lend.
    pub(crate) loans: Option<LoanCounts>,
}
