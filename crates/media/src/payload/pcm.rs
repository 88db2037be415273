//! G.711 and linear PCM (RFC 3551 sections 4.5.11 and 4.5.14; 24 bits: RFC 3190).
//!
//! More than two channels are sent in the order of the file, which can differ from that of RFC 3551 section
//! 4.1.

use super::{Payloads, PcmFormat, cut};
use crate::track::Extent;

/// Packets per second with the default packet duration of 20 ms (RFC 3551 section 4.2).
const PACKETS_PER_SECOND: u32 = 50;

/// Adds packets of at most `limit` bytes and `most` times 20 ms. The timestamp of a packet is that of its
/// first sample. An incomplete sample at the end is dropped.
pub(super) fn packetize(
    format: PcmFormat,
    sound: Extent,
    timestamp: u64,
    limit: usize,
    most: usize,
    payloads: &mut Payloads,
) {
    let frame = format.frame_length();
    let usual = (format.sample_rate / PACKETS_PER_SECOND).max(1) as usize;
    let length = usual.saturating_mul(most.max(1)).min(limit / frame).max(1) * frame;
    let whole = Extent { length: sound.length - sound.length % frame as u64, ..sound };
    for part in cut(whole, length) {
        match format.encoding.is_swapped() {
            true => payloads.refer_swapped(part, format.encoding.width()),
            false => payloads.refer(part),
        }
        let before = (part.offset - sound.offset) / frame as u64;
        payloads.end(timestamp.wrapping_add(before), false);
    }
}
