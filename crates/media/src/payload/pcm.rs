//! G.711 and linear PCM (RFC 3551 section 4.5.11 and 4.5.14; 24 bits: RFC 3190): sound as it is.
//!
//! More than two channels stay in the order of the file, which need not be that of RFC 3551 section 4.1.

use super::{Payloads, PcmFormat, cut};
use crate::track::Extent;

/// Packets in a second, unless more sound is to go into one: the usual 20 ms (RFC 3551 section 4.2).
const PACKETS_PER_SECOND: u32 = 50;

/// Adds the packets of sound, of at most `limit` bytes and of `most` times 20 ms each. Their timestamps are
/// those of their first samples. Bytes at the end that are not a sample of each channel are left out.
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
        payloads.refer(part);
        let before = (part.offset - sound.offset) / frame as u64;
        payloads.end(timestamp.wrapping_add(before), false);
    }
}
