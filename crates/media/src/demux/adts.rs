//! Frames of AAC in ADTS (ISO/IEC 13818-7 section 6.2, ISO/IEC 14496-3 annex 1.A).

use super::frame::{FrameHeader, FrameKind, Read};
use crate::track::{AudioConfig, Codec, Sound};

/// Bytes of a header, and of its optional checksum.
const HEADER_LENGTH: usize = 7;
const CRC_LENGTH: usize = 2;

/// Samples of a frame.
const SAMPLES: u32 = 1024;

/// Reads the header of a frame. The two bytes of `AudioSpecificConfig` are derived from its fields. A frame
/// with several raw data blocks, which common encoders do not write, is invalid.
pub(super) fn read(bytes: &[u8]) -> Read {
    let Some(head) = bytes.first_chunk::<HEADER_LENGTH>() else { return Read::Incomplete };
    let [first, second, third, fourth, fifth, sixth, seventh] = *head;
    if first != 0xff || second & 0xf6 != 0xf0 || seventh & 3 != 0 {
        return Read::Invalid;
    }
    let has_crc = second & 1 == 0;
    let (profile, rate, channels) = (third >> 6, third >> 2 & 0x0f, (third & 1) << 2 | fourth >> 6);
    let length = usize::from(fourth & 3) << 11 | usize::from(fifth) << 3 | usize::from(sixth >> 5);
    let skipped = HEADER_LENGTH + if has_crc { CRC_LENGTH } else { 0 };
    let configuration = u16::from(profile + 1) << 11 | u16::from(rate) << 7 | u16::from(channels) << 3;
    let configuration = AudioConfig::read(&configuration.to_be_bytes());
    let Some(configuration) = configuration.filter(|_| length >= skipped) else { return Read::Invalid };
    let sound = Sound { channels: configuration.channels.into(), sample_rate: configuration.sample_rate };
    let kind = FrameKind { codec: Codec::Aac(configuration), sound };
    Read::Header(FrameHeader { kind, skipped, length, samples: SAMPLES })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The configuration of AAC in a transport stream is that of its ADTS headers.
    #[test]
    fn headers_are_configurations() {
        // AAC-LC, 48 kHz, stereo, 9 bytes of header and data.
        let frame = [0xff, 0xf1, 0x4c, 0x80, 0x01, 0x3f, 0xfc, 1, 2];
        let Read::Header(header) = read(&frame) else { panic!("a header") };
        let Codec::Aac(configuration) = &header.kind.codec else { panic!("{header:?}") };
        assert_eq!(configuration.bytes, [0x11, 0x90]);
        assert_eq!((header.skipped, header.length, header.samples), (7, 9, 1024));
        assert_eq!(header.kind.sound, Sound { channels: 2, sample_rate: 48_000 });
        for (at, byte) in [(0, 0xfe), (1, 0x71), (2, 0x7c), (4, 0), (6, 1)] {
            let mut damaged = frame;
            damaged[at] = byte;
            assert!(matches!(read(&damaged), Read::Invalid), "byte {at}");
        }
        assert!(matches!(read(&frame[..6]), Read::Incomplete));
    }
}
