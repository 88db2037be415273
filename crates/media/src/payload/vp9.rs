//! VP9 (RFC 9628): fragments of a frame, with the smallest payload descriptor, one byte, without layers and
//! picture ID.

use super::Payloads;
use super::unit::Unit;

/// Flags of the payload descriptor (section 4.2), P, B and E: inter-picture predicted frame; beginning and
/// end of the frame.
const PREDICTED: u8 = 0x40;
const START: u8 = 0x08;
const END: u8 = 0x04;

/// Adds the packets of a frame, of at most `limit` bytes each.
pub(super) fn packetize(frame: &Unit, timestamp: u64, limit: usize, payloads: &mut Payloads) {
    let predicted = if is_key(frame.header[0]) { 0 } else { PREDICTED };
    for (part, padding) in payloads.divide(frame.extent, limit - 1) {
        let start = if part.offset == frame.extent.offset { START } else { 0 };
        let (end, marker) = if part.end() == frame.extent.end() { (END, true) } else { (0, false) };
        payloads.generate(&[predicted | start | end]);
        payloads.refer(part);
        payloads.end_padded(timestamp, marker, padding);
    }
}

/// Returns whether a frame with this first byte is a key frame (VP9 specification section 6.2). Bits: frame
/// marker (2), profile (2), a reserved bit only for profile 3, `show_existing_frame`, `frame_type`.
fn is_key(first: u8) -> bool {
    let shift = if first & 0x30 == 0x30 { 1 } else { 2 };
    first >> shift & 3 == 0
}
