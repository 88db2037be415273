//! Decisions that precede packing.

use crate::rtp::HEADER_LENGTH;
use crate::ts::PACKET_LENGTH;

/// Most transport stream packets in an RTP packet: those that a path MTU of 9,000 bytes takes.
pub const MAX_TS_PER_PACKET: u16 = 47;

/// Burst window of images in microseconds. Sessions cut their trains for shorter bursts, and join them for
/// longer ones.
pub const USUAL_BURST_US: u32 = 20_000;

/// Longest burst in microseconds; a receiver's jitter buffer takes no more.
pub const MAX_BURST_US: u32 = 500_000;

/// Identity of the file that an image was made from. The image is stale when any of it differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Length in bytes.
    pub size: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Inode number.
    pub inode: u64,
    /// Number of the device that the inode is on.
    pub device: u64,
}

/// Division of an asset into packets and trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Transport stream packets in each RTP packet, 1 to [`MAX_TS_PER_PACKET`]. Seven fit an Ethernet frame.
    pub ts_per_packet: u16,
    /// Burst window in microseconds: packets leave early by at most this; at most [`MAX_BURST_US`].
    pub burst_us: u32,
}

/// Plan of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The asset.
    pub identity: Identity,
    /// Division into packets and trains.
    pub recipe: Recipe,
    /// Synchronisation source of all packets.
    pub ssrc: u32,
    /// Sequence number of the first packet.
    pub sequence: u16,
    /// Timestamp of the first packet, in ticks of 90 kHz.
    pub timestamp: u32,
}

/// Invalid recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The number of transport stream packets is out of range.
    #[error("invalid number of TS packets per RTP packet {0}: expected 1 to {MAX_TS_PER_PACKET}")]
    TsPerPacket(u16),
    /// The burst is too long.
    #[error("invalid burst of {0} µs: expected at most {MAX_BURST_US} µs")]
    Burst(u32),
}

impl Recipe {
    /// The recipe for a path MTU in bytes: as many transport stream packets as fit with RTP, UDP and IP
    /// headers (`ip_header` bytes: 20, or 40 for IPv6); `None` where not one does.
    pub fn for_mtu(mtu: u16, ip_header: u16, burst_us: u32) -> Option<Self> {
        const UDP_HEADER: u16 = 8;
        let payload = mtu.checked_sub(ip_header + UDP_HEADER + HEADER_LENGTH as u16)?;
        let ts_per_packet = (payload / PACKET_LENGTH as u16).min(MAX_TS_PER_PACKET);
        (ts_per_packet > 0).then_some(Self { ts_per_packet, burst_us })
    }

    /// Bytes of payload in every packet but the last.
    pub fn payload_length(self) -> usize {
        usize::from(self.ts_per_packet) * PACKET_LENGTH
    }

    /// Bytes of every packet but the last, RTP header included.
    pub fn packet_size(self) -> u16 {
        (HEADER_LENGTH + self.payload_length()) as u16
    }

    /// Checks the ranges.
    pub fn check(self) -> Result<(), PlanError> {
        match self {
            Self { ts_per_packet, .. } if !(1..=MAX_TS_PER_PACKET).contains(&ts_per_packet) => {
                Err(PlanError::TsPerPacket(ts_per_packet))
            }
            Self { burst_us, .. } if burst_us > MAX_BURST_US => Err(PlanError::Burst(burst_us)),
            _ => Ok(()),
        }
    }
}

impl Plan {
    /// Sequence number of packet `packet`, counted from 0.
    pub fn sequence_of(&self, packet: u64) -> u16 {
        self.sequence.wrapping_add(packet as u16)
    }
}
