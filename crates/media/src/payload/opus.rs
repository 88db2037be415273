//! Opus (RFC 7587): each Opus packet is one payload, without fragmentation.

use super::{Payloads, TooLong};
use crate::track::Extent;

/// Adds an Opus packet of at most `limit` bytes. Empty packets are dropped.
pub(super) fn packetize(
    packet: Extent,
    timestamp: u64,
    limit: usize,
    payloads: &mut Payloads,
) -> Result<(), TooLong> {
    TooLong::check("Opus", packet, limit as u64)?;
    if packet.length > 0 {
        payloads.refer(packet);
        payloads.end(timestamp, false);
    }
    Ok(())
}
