//! VP8 (RFC 7741): fragments of a frame, with the smallest payload descriptor, one byte.
//!
//! The partition index is always 0, as section 4.2 allows.

use super::Payloads;
use crate::track::Extent;

/// Descriptor flag of the first packet of a partition.
const START: u8 = 0x10;

/// Adds the packets of a frame, of at most `limit` bytes each.
pub(super) fn packetize(frame: Extent, timestamp: u64, limit: usize, payloads: &mut Payloads) {
    for (part, padding) in payloads.divide(frame, limit - 1) {
        payloads.generate(&[if part.offset == frame.offset { START } else { 0 }]);
        payloads.refer(part);
        payloads.end_padded(timestamp, part.end() == frame.end(), padding);
    }
}
