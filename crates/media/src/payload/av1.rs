//! AV1 (AOM, "RTP Payload Format For AV1" version 1.0): OBUs without size fields as OBU elements of packets.
//!
//! A packet has at most three OBU elements. The last has no length field, so that all full packets have the
//! same length. OBUs of different layers do not share a packet (section 5).

use super::Payloads;
use super::obu::{begins_sequence, header, layer};
use super::unit::Unit;
use crate::rtp::MAX_PADDING;
use crate::track::Extent;

/// Flags of the aggregation header (section 4.4), Z, Y and N: the first element continues an OBU of the
/// packet before; the last element continues in the next packet; a coded video sequence begins.
const CONTINUES: u8 = 0x80;
const GOES_ON: u8 = 0x40;
const BEGINS: u8 = 0x08;

/// Most elements of a packet whose number fits into field W of the aggregation header.
const MAX_ELEMENTS: usize = 3;

/// Least room to begin a further element: its length field, its header and one more byte.
const LEAST_ROOM: u64 = 4;

/// OBU element of a packet: a part of an OBU.
#[derive(Clone, Copy, Debug)]
struct Element<'a> {
    obu: &'a Unit,
    /// First byte of the part and the byte after its last, counted from the OBU's header.
    from: u64,
    to: u64,
}

/// Adds the packets of a temporal unit, of at most `limit` bytes each. If padding can fill all of them, they are
/// made shorter, so that each has some.
pub(super) fn packetize(obus: &[Unit], timestamp: u64, limit: usize, payloads: &mut Payloads) {
    let start = payloads.mark();
    pack(obus, timestamp, limit, None, payloads);
    let (packets, full) = (payloads.lengths_after(start).count(), limit);
    let missing: usize = payloads.lengths_after(start).map(|length| full - length).sum();
    if missing == 0 {
        return;
    }
    let each = if missing < packets { (missing + full) / (packets + 1) } else { missing / packets };
    if each <= MAX_PADDING && each * 2 <= limit && missing + full <= payloads.padding_left() {
        payloads.return_to(start);
        pack(obus, timestamp, limit - each, Some(limit), payloads);
        if payloads.lengths_after(start).any(|length| length != full) {
            payloads.return_to(start);
            pack(obus, timestamp, limit, None, payloads);
        }
    }
}

/// Adds the packets of a temporal unit, of at most `limit` bytes each before they are filled with padding.
fn pack(obus: &[Unit], timestamp: u64, limit: usize, filled: Option<usize>, payloads: &mut Payloads) {
    let sequence = begins_sequence(obus);
    let (mut rest, mut sent, mut first) = (obus, 0, true);
    while let Some(obu) = rest.first() {
        let continues = if sent > 0 { CONTINUES } else { 0 };
        let mut elements = [Element { obu, from: 0, to: 0 }; MAX_ELEMENTS];
        let mut count = 0;
        let mut room = limit as u64 - 1;
        let mut layer_of_packet = None;
        while let (Some((obu, after)), true) = (rest.split_first(), count < MAX_ELEMENTS) {
            if layer_of_packet.zip(layer(obu)).is_some_and(|(packet, obu)| packet != obu) {
                break;
            }
            layer_of_packet = layer_of_packet.or(layer(obu));
            let left = length(obu) - sent;
            let (from, to) = (sent, sent + left.min(room));
            elements[count] = Element { obu, from, to };
            count += 1;
            if left > room {
                sent = to;
                break;
            }
            (rest, sent) = (after, 0);
            let prefixed = left + leb128(left).1 as u64;
            if room < prefixed + LEAST_ROOM {
                break;
            }
            room -= prefixed;
        }
        let goes_on = if sent > 0 { GOES_ON } else { 0 };
        let begins = if sequence && std::mem::take(&mut first) { BEGINS } else { 0 };
        let aggregation = continues | goes_on | (count as u8) << 4 | begins;
        packet(aggregation, &elements[..count], payloads);
        payloads.end_filled(timestamp, rest.is_empty(), filled.unwrap_or(0));
    }
}

/// Adds an aggregation header and elements, each with a length field except the last.
fn packet(aggregation: u8, elements: &[Element<'_>], payloads: &mut Payloads) {
    for (index, Element { obu, from, to }) in elements.iter().enumerate() {
        let (mut bytes, mut used) = ([aggregation; 6], usize::from(index == 0));
        if index + 1 < elements.len() {
            let (length, digits) = leb128(to - from);
            bytes[used..used + digits].copy_from_slice(&length[..digits]);
            used += digits;
        }
        let header = header(obu);
        if *from == 0 {
            bytes[used..used + header.len()].copy_from_slice(header);
            used += header.len();
        }
        bytes[..used].chunks(super::MAX_GENERATED).for_each(|bytes| payloads.generate(bytes));
        let headers = header.len() as u64;
        let (start, end) = (from.max(&headers) - headers, to - headers);
        payloads.refer(Extent { offset: obu.extent.offset + start, length: end - start });
    }
}

/// Length of an OBU as an element.
fn length(obu: &Unit) -> u64 {
    header(obu).len() as u64 + obu.extent.length
}

/// Encodes the length of an element in leb128. Returns the bytes and their number, at most 3, since a packet
/// has fewer than 2^21 bytes.
fn leb128(mut value: u64) -> ([u8; 3], usize) {
    let mut digits = [0; 3];
    for (index, digit) in digits.iter_mut().enumerate() {
        *digit = value as u8 & 0x7f;
        value >>= 7;
        if value == 0 {
            return (digits, index + 1);
        }
        *digit |= 0x80;
    }
    (digits, 3)
}
