//! Frames of MPEG-1 and MPEG-2 audio (ISO/IEC 11172-3 section 2.4.2.3, ISO/IEC 13818-3).

use super::frame::{FrameHeader, FrameKind, Read};
use crate::track::{Codec, Sound};

/// Bit rates in kb/s by index: MPEG-1 layers 1, 2 and 3; MPEG-2 layer 1, and layers 2 and 3.
const BIT_RATES: [[u32; 14]; 5] = [
    [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

/// Sample rates of MPEG-1 in Hz by index; MPEG-2 has half of these, MPEG-2.5 a quarter.
const SAMPLE_RATES: [u32; 3] = [44_100, 48_000, 32_000];

/// Reads the header of a frame. Frames of free format, whose headers do not contain their length, are
/// invalid.
pub(super) fn read(bytes: &[u8]) -> Read {
    let Some([first, second, third, fourth]) = bytes.first_chunk::<4>() else { return Read::Incomplete };
    let (version, layer) = (second >> 3 & 3, 4 - (second >> 1 & 3));
    let (rate, sample_rate, padding) = (third >> 4, third >> 2 & 3, u32::from(third >> 1 & 1));
    if *first != 0xff || second & 0xe0 != 0xe0 || version == 1 || layer == 4 {
        return Read::Invalid;
    }
    let is_first = version == 3;
    let table = match (is_first, layer) {
        (true, layer) => usize::from(layer) - 1,
        (false, 1) => 3,
        (false, _) => 4,
    };
    let rate = usize::from(rate).checked_sub(1).and_then(|index| BIT_RATES[table].get(index));
    let (Some(rate), Some(sample_rate)) = (rate, SAMPLE_RATES.get(usize::from(sample_rate))) else {
        return Read::Invalid;
    };
    let sample_rate = sample_rate >> (3 - version).min(2);
    let (samples, slot) = match (layer, is_first) {
        (1, _) => (384, 4),
        (3, false) => (576, 1),
        _ => (1152, 1),
    };
    let length = (samples / 8 * rate * 1000 / slot / sample_rate + padding) * slot;
    let channels = if fourth >> 6 == 3 { 1 } else { 2 };
    let kind = FrameKind { codec: Codec::MpegAudio, sound: Sound { channels, sample_rate } };
    Read::Header(FrameHeader { kind, skipped: 0, length: length as usize, samples })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_length_and_rate() {
        for (head, length, samples, sample_rate, channels) in [
            ([0xff, 0xfb, 0x90, 0x00], 417, 1152, 44_100, 2), // MPEG-1 layer 3, 128 kb/s
            ([0xff, 0xfb, 0x92, 0x00], 418, 1152, 44_100, 2), // with padding
            ([0xff, 0xfd, 0xa4, 0x00], 576, 1152, 48_000, 2), // MPEG-1 layer 2, 192 kb/s
            ([0xff, 0xff, 0x88, 0x00], 384, 384, 32_000, 2),  // MPEG-1 layer 1, 256 kb/s
            ([0xff, 0xf3, 0x80, 0xc0], 208, 576, 22_050, 1),  // MPEG-2 layer 3, 64 kb/s
            ([0xff, 0xe3, 0x80, 0xc0], 417, 576, 11_025, 1),  // MPEG-2.5 layer 3, 64 kb/s
        ] {
            let Read::Header(header) = read(&head) else { panic!("{head:x?}") };
            assert_eq!((header.length, header.samples), (length, samples), "{head:x?}");
            assert_eq!(header.kind.sound, Sound { channels, sample_rate });
        }
        for head in
            [[0xff, 0xfb, 0x00, 0], [0xff, 0xfb, 0xf0, 0], [0xff, 0xfb, 0x9c, 0], [0xff, 0xeb, 0x90, 0]]
        {
            assert!(matches!(read(&head), Read::Invalid), "{head:x?}");
        }
    }
}
