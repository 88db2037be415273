//! H.265 (RFC 7798): single NAL units, aggregation packets and fragmentation units.

use super::Payloads;
use super::nal::NalUnit;
use crate::track::Extent;

/// NAL unit types of the payload format (section 4.4).
const AGGREGATION: u8 = 48;
const FRAGMENTATION: u8 = 49;
const PACI: u8 = 50;

/// FU header flags of the first and the last fragment of a NAL unit (section 4.4.3).
const START: u8 = 0x80;
const END: u8 = 0x40;

/// Adds the packets of an access unit, of at most `limit` bytes each. NAL units of one byte, which is less
/// than a header, and NAL units whose types have another meaning in RTP are dropped.
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
    unit.extent.length >= 2 && !(AGGREGATION..=PACI).contains(&(unit.header[0] >> 1 & 0x3f))
}

/// Number of NAL units that fit into one packet, at least one.
fn fitting(units: &[NalUnit], limit: usize) -> usize {
    let mut length = 2;
    let fits = units.iter().take_while(|unit| {
        length += 2 + unit.extent.length;
        length <= limit as u64 && carried(unit)
    });
    fits.count().max(1)
}

/// Adds a single NAL unit packet, or several NAL units in an aggregation packet (section 4.4.2).
fn aggregate(units: &[NalUnit], payloads: &mut Payloads) {
    if let [only] = units {
        return payloads.refer(only.extent);
    }
    let headers = || units.iter().map(|unit| u16::from_be_bytes(unit.header));
    let forbidden = headers().fold(0, |bits, header| bits | header & 0x8000);
    let layer = headers().map(|header| header & 0x01f8).min().unwrap_or(0);
    let temporal = headers().map(|header| header & 0x0007).min().unwrap_or(0);
    let [first, second] = (forbidden | u16::from(AGGREGATION) << 9 | layer | temporal).to_be_bytes();
    for (index, unit) in units.iter().enumerate() {
        let [high, low] = (unit.extent.length as u16).to_be_bytes();
        let bytes = [first, second, high, low];
        payloads.generate(if index == 0 { &bytes } else { &bytes[2..] });
        payloads.refer(unit.extent);
    }
}

/// Splits a NAL unit into fragmentation units (section 4.4.3); the last may be shorter. The NAL unit's header
/// is not sent.
fn fragments(unit: &NalUnit, timestamp: u64, limit: usize, last: bool, payloads: &mut Payloads) {
    let [first, second] = unit.header;
    let body = Extent { offset: unit.extent.offset + 2, length: unit.extent.length - 2 };
    for (part, padding) in payloads.divide(body, limit - 3) {
        let start = if part.offset == body.offset { START } else { 0 };
        let (end, marker) = if part.end() == body.end() { (END, last) } else { (0, false) };
        payloads.generate(&[first & 0x81 | FRAGMENTATION << 1, second, start | end | first >> 1 & 0x3f]);
        payloads.refer(part);
        payloads.end_padded(timestamp, marker, padding);
    }
}
