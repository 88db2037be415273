//! Packets of Opus in a transport stream, each after a control header (ETSI TS 103 491 section 5, and the
//! provisional mapping that muxers write).

use super::frame::{FrameHeader, FrameKind, Read};
use crate::track::{Codec, Sound};

/// Clock rate of Opus (RFC 6716).
const SAMPLE_RATE: u32 = 48_000;

/// Longest packet that is read: 120 ms at 510 kb/s are shorter.
const MAX_LENGTH: usize = 1 << 14;

/// Reads the control header of a packet. Trimming at both ends is ignored, because RTP cannot signal it.
pub(super) fn read(bytes: &[u8]) -> Read {
    let Some((prefix, rest)) = bytes.split_first_chunk::<2>() else { return Read::Incomplete };
    if u16::from_be_bytes(*prefix) & 0xffe0 != 0x7fe0 {
        return Read::Invalid;
    }
    let [_, flags] = *prefix;
    let mut length = 0;
    let mut fields = rest.iter();
    loop {
        let Some(byte) = fields.next() else { return Read::Incomplete };
        length += usize::from(*byte);
        match (length > MAX_LENGTH, *byte) {
            (true, _) => return Read::Invalid,
            (_, 0xff) => {}
            _ => break,
        }
    }
    let trims = 2 * usize::from(flags & 0x10 != 0) + 2 * usize::from(flags & 0x08 != 0);
    let mut skipped = bytes.len() - fields.len() + trims;
    if flags & 0x04 != 0 {
        let Some(extension) = bytes.get(skipped) else { return Read::Incomplete };
        skipped += 1 + usize::from(*extension);
    }
    let Some([first, rest @ ..]) = bytes.get(skipped..) else { return Read::Incomplete };
    let samples = samples(*first, rest.first().copied());
    // RFC 7587 section 7: always two channels, whatever the packets contain.
    let kind = FrameKind { codec: Codec::Opus, sound: Sound { channels: 2, sample_rate: SAMPLE_RATE } };
    Read::Header(FrameHeader { kind, skipped, length: skipped + length, samples })
}

/// Samples of a packet at 48 kHz, from its first two bytes (RFC 6716 section 3.1).
fn samples(first: u8, second: Option<u8>) -> u32 {
    let configuration = first >> 3;
    let frame = match configuration {
        0..=11 => [480, 960, 1920, 2880][usize::from(configuration & 3)],
        12..=15 => [480, 960][usize::from(configuration & 1)],
        _ => [120, 240, 480, 960][usize::from(configuration & 3)],
    };
    frame
        * match first & 3 {
            0 => 1,
            1 | 2 => 2,
            _ => u32::from(second.unwrap_or(1) & 0x3f),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_headers_say_length() {
        let packet = [&[0x7f, 0xe0, 0xff, 0x01][..], &[0xfc; 256]].concat();
        let Read::Header(header) = read(&packet) else { panic!("a header") };
        assert_eq!((header.skipped, header.length, header.samples), (4, 260, 960));
        let trimmed = [0x7f, 0xf8, 0x03, 0, 0, 0, 0, 0x08, 1, 2];
        let Read::Header(header) = read(&trimmed) else { panic!("a header") };
        assert_eq!((header.skipped, header.length, header.samples), (7, 10, 960));
        assert!(matches!(read(&[0x7f, 0xe0, 0xff]), Read::Incomplete));
        assert!(matches!(read(&[0x7f, 0xc0, 0x03]), Read::Invalid));
    }
}
