//! Frames of AC-3 (ETSI TS 102 366, ATSC A/52 section 5.3).

use super::frame::{FrameHeader, FrameKind, Read};
use crate::track::{Codec, Sound};

/// Bytes of a header that are read.
const HEADER_LENGTH: usize = 7;

/// Samples of a frame.
const SAMPLES: u32 = 1536;

/// Bit rates in kb/s by half of `frmsizecod` (table 5.18).
const BIT_RATES: [u32; 19] =
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];

/// Channels by `acmod` (table 5.8), without the low-frequency channel.
const CHANNELS: [u16; 8] = [2, 1, 2, 3, 3, 4, 4, 5];

/// Reads the header of a frame. A header of Enhanced AC-3, which has a greater `bsid`, is invalid.
pub(super) fn read(bytes: &[u8]) -> Read {
    let Some(head) = bytes.first_chunk::<HEADER_LENGTH>() else { return Read::Incomplete };
    let (rate, size, bsid) = (head[4] >> 6, head[4] & 0x3f, head[5] >> 3);
    let bit_rate = BIT_RATES.get(usize::from(size / 2)).filter(|_| head[..2] == [0x0b, 0x77] && bsid <= 8);
    let Some(bit_rate) = bit_rate else { return Read::Invalid };
    // Frame sizes in words of 16 bits. Sizes at 44.1 kHz are rounded down, and odd codes add one.
    let (sample_rate, words) = match rate {
        0 => (48_000, bit_rate * 2),
        1 => (44_100, bit_rate * 96_000 / 44_100 + u32::from(size & 1)),
        2 => (32_000, bit_rate * 3),
        _ => return Read::Invalid,
    };
    let mode = head[6] >> 5;
    // Mix levels and the surround mode precede the flag (section 5.3.2).
    let skipped = match mode {
        2 => 2,
        mode => 2 * u32::from(mode & 1 == 1 && mode != 1) + 2 * u32::from(mode & 4 != 0),
    };
    let low = head[6] << (3 + skipped) & 0x80 != 0;
    let channels = CHANNELS[usize::from(mode)] + u16::from(low);
    let kind = FrameKind { codec: Codec::Ac3, sound: Sound { channels, sample_rate } };
    Read::Header(FrameHeader { kind, skipped: 0, length: words as usize * 2, samples: SAMPLES })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_length_and_channels() {
        for (head, length, channels, sample_rate) in [
            ([0x0b, 0x77, 0, 0, 0x14, 0x40, 0x40], 768, 2, 48_000), // 192 kb/s, stereo
            ([0x0b, 0x77, 0, 0, 0x1e, 0x40, 0xe1], 1792, 6, 48_000), // 448 kb/s, 3/2 with LFE
            ([0x0b, 0x77, 0, 0, 0x1e, 0x40, 0xe0], 1792, 5, 48_000),
            ([0x0b, 0x77, 0, 0, 0x55, 0x40, 0x20], 836, 1, 44_100), // 192 kb/s, the longer size
        ] {
            let Read::Header(header) = read(&head) else { panic!("{head:x?}") };
            assert_eq!(header.length, length, "{head:x?}");
            assert_eq!(header.kind.sound, Sound { channels, sample_rate }, "{head:x?}");
        }
        for head in [
            [0x0b, 0x77, 0, 0, 0xd4, 0x40, 0],
            [0x0b, 0x77, 0, 0, 0x3f, 0x40, 0],
            [0x0b, 0x77, 0, 0, 0x14, 0x80, 0],
        ] {
            assert!(matches!(read(&head), Read::Invalid), "{head:x?}");
        }
    }
}
