//! H.264 (RFC 6184), packetization-mode 1: single NAL units, aggregation packets (STAP-A) and fragments
//! (FU-A).

use super::Payloads;
use super::nal::NalUnit;
use crate::track::Extent;

/// NAL unit types of the payload format (section 5.2).
const STAP_A: u8 = 24;
const FU_A: u8 = 28;

/// FU header flags of the first and the last fragment of a NAL unit (section 5.8).
const START: u8 = 0x80;
const END: u8 = 0x40;

/// Adds the packets of an access unit, of at most `limit` bytes each. NAL units whose types are undefined or
/// have another meaning in RTP are dropped (table 1).
pub(super) fn packetize(units: &[NalUnit], timestamp: u64, limit: usize, payloads: &mut Payloads) {
    let mut rest = units;
    while let Some((first, after)) = rest.split_first() {
        let last_of = |count: usize| !rest[count..].iter().any(carried);
        if !carried(first) {
            rest = after;
        } else if first.extent.length > limit as u64 {
            fragments(first, timestamp, limit, last_of(1), payloads);
            rest = after;
        } else {
            let together = fitting(rest, limit);
            aggregate(&rest[..together], payloads);
            payloads.end_filled(timestamp, last_of(together), limit);
            rest = &rest[together..];
        }
    }
}

fn carried(unit: &NalUnit) -> bool {
    (1..STAP_A).contains(&(unit.header[0] & 0x1f))
}

/// Number of NAL units that fit into one packet, at least one.
fn fitting(units: &[NalUnit], limit: usize) -> usize {
    let mut length = 1;
    let fits = units.iter().take_while(|unit| {
        length += 2 + unit.extent.length;
        length <= limit as u64 && carried(unit)
    });
    fits.count().max(1)
}

/// Adds a single NAL unit packet, or several NAL units in a STAP-A (section 5.7.1).
fn aggregate(units: &[NalUnit], payloads: &mut Payloads) {
    if let [only] = units {
        return payloads.refer(only.extent);
    }
    let forbidden = units.iter().fold(0, |bits, unit| bits | unit.header[0] & 0x80);
    let importance = units.iter().map(|unit| unit.header[0] & 0x60).max().unwrap_or(0);
    for (index, unit) in units.iter().enumerate() {
        let [high, low] = (unit.extent.length as u16).to_be_bytes();
        let bytes = [forbidden | importance | STAP_A, high, low];
        payloads.generate(if index == 0 { &bytes } else { &bytes[1..] });
        payloads.refer(unit.extent);
    }
}

/// Splits a NAL unit into FU-A fragments (section 5.8); the last may be shorter. The NAL unit's first byte is
/// not sent.
fn fragments(unit: &NalUnit, timestamp: u64, limit: usize, last: bool, payloads: &mut Payloads) {
    let [header, _] = unit.header;
    let body = Extent { offset: unit.extent.offset + 1, length: unit.extent.length - 1 };
    for (part, padding) in payloads.divide(body, limit - 2) {
        let start = if part.offset == body.offset { START } else { 0 };
        let (end, marker) = if part.end() == body.end() { (END, last) } else { (0, false) };
        payloads.generate(&[header & 0xe0 | FU_A, start | end | header & 0x1f]);
        payloads.refer(part);
        payloads.end_padded(timestamp, marker, padding);
    }
}
