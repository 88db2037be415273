//! Picture size and frame rate of video streams, from their first sequence header.

use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::nal::{Nal, RefNal};

use super::access::elementary;
use super::packet::Packet;
use super::programme::Codec;

/// Bytes of a picture that are searched for a header. Encoders write the header first.
const SEARCHED_BYTES: usize = 4096;

/// Most pictures that are searched.
const SEARCHED_PICTURES: u32 = 1000;

/// Picture size and frame rate of a video stream.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct VideoFormat {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Frames per second, if the header has them.
    pub frame_rate: Option<f64>,
}

/// Search for the format of one video stream.
#[derive(Clone, Debug)]
pub struct VideoProbe {
    codec: Codec,
    bytes: Vec<u8>,
    pictures: u32,
    format: Option<VideoFormat>,
}

impl VideoProbe {
    /// Search in a stream of `codec`: H.264, MPEG-1 or MPEG-2 video. Other codecs have no result.
    pub fn new(codec: Codec) -> VideoProbe {
        VideoProbe { codec, bytes: Vec::new(), pictures: 0, format: None }
    }

    /// Reads the next packet of the stream.
    pub fn push(&mut self, packet: Packet<'_>) {
        if self.format.is_some() || self.pictures >= SEARCHED_PICTURES || packet.scrambled() {
            return;
        }
        let payload = packet.payload();
        if packet.payload_unit_start() {
            self.search();
            self.bytes.clear();
            self.pictures += 1;
            self.bytes.extend_from_slice(elementary(payload).unwrap_or_default());
        } else if !self.bytes.is_empty() && self.bytes.len() < SEARCHED_BYTES {
            self.bytes.extend_from_slice(payload);
        }
    }

    /// Returns the format, if its header was found.
    pub fn finish(mut self) -> Option<VideoFormat> {
        self.search();
        self.format
    }

    fn search(&mut self) {
        self.format = self.format.or_else(|| match self.codec {
            Codec::H264 => units(&self.bytes).find_map(h264),
            Codec::Mpeg1Video | Codec::Mpeg2Video => units(&self.bytes).find_map(mpeg2),
            _ => None,
        });
    }
}

/// Splits bytes into units between start codes 00 00 01, without the start codes.
fn units(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = || (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&[0, 0, 1]));
    let ends = starts().skip(1).chain([bytes.len()]);
    starts().zip(ends).map(|(start, end)| &bytes[start + 3..end])
}

/// Reads a sequence parameter set (ITU-T H.264 section 7.3.2.1).
fn h264(unit: &[u8]) -> Option<VideoFormat> {
    if unit.first()? & 0x1f != 7 {
        return None;
    }
    let set = SeqParameterSet::from_bits(RefNal::new(unit, &[], true).rbsp_bits()).ok()?;
    let (width, height) = set.pixel_dimensions().ok()?;
    Some(VideoFormat { width, height, frame_rate: set.fps().filter(|rate| rate.is_finite() && *rate > 0.0) })
}

/// Reads a sequence header (ISO/IEC 13818-2 section 6.2.2.1).
fn mpeg2(unit: &[u8]) -> Option<VideoFormat> {
    /// Frame rates by frame_rate_code (table 6-4).
    const RATES: [f64; 8] =
        [24000.0 / 1001.0, 24.0, 25.0, 30000.0 / 1001.0, 30.0, 50.0, 60000.0 / 1001.0, 60.0];
    let [0xb3, high, both, low, codes, ..] = *unit else { return None };
    let width = u32::from(high) << 4 | u32::from(both >> 4);
    let height = u32::from(both & 0x0f) << 8 | u32::from(low);
    let frame_rate = RATES.get(usize::from(codes & 0x0f).wrapping_sub(1)).copied();
    (width > 0 && height > 0).then_some(VideoFormat { width, height, frame_rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `inspect` shows H.264 and MPEG-2 video with picture size and frame rate.
    #[test]
    fn sequence_headers_have_sizes_and_rates() {
        let mpeg2 = [&[0, 0, 1][..], &[0xb3, 0x2d, 0x02, 0x40, 0x33, 0xff], &[0, 0, 1, 0xb5]].concat();
        let probe = VideoProbe { bytes: mpeg2, ..VideoProbe::new(Codec::Mpeg2Video) };
        let expected = VideoFormat { width: 720, height: 576, frame_rate: Some(25.0) };
        assert_eq!(probe.finish(), Some(expected));
        // 64 by 64 pixels, baseline profile, without timing (an example of the library's documentation).
        let h264 = b"\0\0\0\x01\x67\x42\xc0\x15\xd9\x01\x41\xfb\x01\x10\0\0\x03\0\x10\0\0\x03\x03\xc0\xf1\x62\xe4\x80".to_vec();
        let found = VideoProbe { bytes: h264, ..VideoProbe::new(Codec::H264) }.finish();
        assert!(found.is_some_and(|format| format.width > 0 && format.height > 0), "{found:?}");
    }

    #[test]
    fn other_units_have_none() {
        for bytes in [&b""[..], b"\0\0\x01", b"\0\0\x01\x67", b"\0\0\x01\xb3\0\0\0\0", b"\0\0\x01\x65abc"] {
            for codec in [Codec::H264, Codec::Mpeg2Video, Codec::H265] {
                assert_eq!(VideoProbe { bytes: bytes.to_vec(), ..VideoProbe::new(codec) }.finish(), None);
            }
        }
    }
}
