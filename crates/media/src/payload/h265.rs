//! H.265 (RFC 7798): single NAL units, aggregation packets and fragmentation units.

use super::nal::NalUnit;
use super::{Payloads, cut};
use crate::track::Extent;

/// Types of NAL units that this format adds (section 4.4).
const AGGREGATION: u8 = 48;
const FRAGMENTATION: u8 = 49;
const PACI: u8 = 50;

/// Beginning and end of a fragmented NAL unit (section 4.4.3).
const START: u8 = 0x80;
const END: u8 = 0x40;

/// Adds the packets of an access unit, of at most `limit` bytes each. A NAL unit of one byte, which
/// has no whole header, and one of a type that means something else in RTP are left out.
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
            payloads.end(timestamp, last_of(together));
            rest = &rest[together..];
        }
    }
}

fn carried(unit: &NalUnit) -> bool {
    unit.extent.length >= 2 && !(AGGREGATION..=PACI).contains(&(unit.header[0] >> 1 & 0x3f))
}

/// Number of NAL units that fit into a packet, at least the first.
fn fitting(units: &[NalUnit], limit: usize) -> usize {
    let mut length = 2;
    let fits = units.iter().take_while(|unit| {
        length += 2 + unit.extent.length;
        length <= limit as u64 && carried(unit)
    });
    fits.count().max(1)
}

/// One NAL unit as it is, or several in an aggregation packet (section 4.4.2).
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

/// A NAL unit in fragments, of which the last is not longer than the others. Its header is not in them.
fn fragments(unit: &NalUnit, timestamp: u64, limit: usize, last: bool, payloads: &mut Payloads) {
    let [first, second] = unit.header;
    let body = Extent { offset: unit.extent.offset + 2, length: unit.extent.length - 2 };
    for part in cut(body, limit - 3) {
        let start = if part.offset == body.offset { START } else { 0 };
        let (end, marker) = if part.end() == body.end() { (END, last) } else { (0, false) };
        payloads.generate(&[first & 0x81 | FRAGMENTATION << 1, second, start | end | first >> 1 & 0x3f]);
        payloads.refer(part);
        payloads.end(timestamp, marker);
    }
}
