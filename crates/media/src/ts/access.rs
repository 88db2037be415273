//! Random access points.

use super::packet::Packet;
use super::programme::Codec;

/// Returns whether a decoder of `codec` can start at this packet of the video stream: the packet has the
/// random access indicator, or the PES packet that starts in it begins with the headers that a decoder needs
/// first. Only this packet is examined.
pub(super) fn is_random_access(packet: Packet<'_>, codec: Codec) -> bool {
    packet.payload_unit_start()
        && (packet.adaptation().is_some_and(|field| field.random_access())
            || !packet.scrambled() && elementary(packet.payload()).is_some_and(|data| starts(codec, data)))
}

/// Returns the elementary stream data at the beginning of a PES packet (ISO/IEC 13818-1 section 2.4.3.6).
pub(super) fn elementary(payload: &[u8]) -> Option<&[u8]> {
    let (head, rest) = payload.split_at_checked(9)?;
    let video = head[..3] == [0, 0, 1] && (0xe0..=0xef).contains(&head[3]) && head[6] & 0xc0 == 0x80;
    if video { rest.get(usize::from(head[8])..) } else { None }
}

/// Result for the unit after a start code.
enum Verdict {
    Yes,
    No,
    /// The next unit has to be examined.
    GoOn,
}

fn starts(codec: Codec, data: &[u8]) -> bool {
    let judge = match codec {
        Codec::Mpeg1Video | Codec::Mpeg2Video => judge_mpeg2,
        Codec::H264 => judge_h264,
        Codec::H265 => judge_h265,
        _ => return false,
    };
    for unit in start_codes(data) {
        match judge(unit) {
            Verdict::Yes => return true,
            Verdict::No => return false,
            Verdict::GoOn => {}
        }
    }
    false
}

/// Returns the first byte after each start code 00 00 01.
fn start_codes(data: &[u8]) -> impl Iterator<Item = u8> {
    data.windows(4).filter(|window| window[..3] == [0, 0, 1]).map(|window| window[3])
}

/// Judges a start code of ISO/IEC 13818-2 table 6-1: a sequence header is a start; a group of pictures or a
/// picture without a sequence header is not.
fn judge_mpeg2(code: u8) -> Verdict {
    match code {
        0xb3 => Verdict::Yes,
        0xb8 | 0x00..=0xaf => Verdict::No,
        _ => Verdict::GoOn,
    }
}

/// Judges a NAL unit type of ITU-T H.264 table 7-1: an IDR slice or a sequence parameter set is a start;
/// other slices are not.
fn judge_h264(header: u8) -> Verdict {
    match header & 0x1f {
        5 | 7 => Verdict::Yes,
        1..=4 => Verdict::No,
        _ => Verdict::GoOn,
    }
}

/// Judges a NAL unit type of ITU-T H.265 table 7-1: an IRAP picture, a VPS or an SPS is a start; other
/// slices are not.
fn judge_h265(header: u8) -> Verdict {
    match header >> 1 & 0x3f {
        16..=23 | 32 | 33 => Verdict::Yes,
        0..=15 => Verdict::No,
        _ => Verdict::GoOn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ts::packet::{PACKET_LENGTH, SYNC_BYTE};

    fn packet(indicator: bool, data: &[u8]) -> [u8; PACKET_LENGTH] {
        let mut bytes = [0xff; PACKET_LENGTH];
        let head = [SYNC_BYTE, 0x41, 0, 0x30, 1, if indicator { 0x40 } else { 0 }];
        let pes = [0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1];
        bytes[..6].copy_from_slice(&head);
        bytes[6..20].copy_from_slice(&pes);
        bytes[20..20 + data.len()].copy_from_slice(data);
        bytes
    }

    fn starts_with(codec: Codec, indicator: bool, data: &[u8]) -> bool {
        is_random_access(Packet::new(&packet(indicator, data)).expect("it has a sync byte"), codec)
    }

    #[test]
    fn the_muxer_is_believed() {
        assert!(starts_with(Codec::H264, true, &[0, 0, 1, 0x41]));
        assert!(starts_with(Codec::Vc1, true, &[]));
    }

    #[test]
    fn without_its_word_the_first_units_tell() {
        let cases: [(Codec, &[u8], bool); 9] = [
            (Codec::H264, &[0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, 0x67, 1], true),
            (Codec::H264, &[0, 0, 0, 1, 0x09, 0xf0, 0, 0, 1, 0x65, 1], true),
            (Codec::H264, &[0, 0, 0, 1, 0x09, 0xf0, 0, 0, 1, 0x41, 0, 0, 1, 0x65], false),
            (Codec::H265, &[0, 0, 1, 0x46, 1, 0x50, 0, 0, 1, 0x40, 1], true),
            (Codec::H265, &[0, 0, 1, 0x46, 1, 0x50, 0, 0, 1, 0x2a, 1], true),
            (Codec::H265, &[0, 0, 1, 0x46, 1, 0x50, 0, 0, 1, 0x02, 1], false),
            (Codec::Mpeg2Video, &[0, 0, 1, 0xb3, 1], true),
            (Codec::Mpeg2Video, &[0, 0, 1, 0x00, 1, 0, 0, 1, 0xb3], false),
            (Codec::Aac, &[0, 0, 1, 0xb3, 1], false),
        ];
        for (codec, data, expected) in cases {
            assert_eq!(starts_with(codec, false, data), expected, "{codec:?} {data:02x?}");
        }
    }
}
