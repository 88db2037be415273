//! Opus (RFC 7587): a packet of Opus is a payload. There are no fragments.

use super::{Payloads, TooLong};
use crate::track::Extent;

/// Adds a packet of Opus, of at most `limit` bytes. An empty one is left out.
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
