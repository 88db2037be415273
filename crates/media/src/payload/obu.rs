//! OBUs of an AV1 sample (AV1 specification section 5.3): a temporal unit in the low-overhead bitstream
//! format.

use super::unit::{Unit, UnitError};
use crate::track::Extent;

/// OBU types (section 6.2.2).
const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const FRAME_HEADER: u8 = 3;
const FRAME: u8 = 6;
const TILE_LIST: u8 = 8;

/// Flags of an OBU header: an extension byte follows; a size field follows.
const EXTENSION: u8 = 0x04;
const HAS_SIZE: u8 = 0x02;

/// Most bytes of an OBU's header, extension, size field, and first payload byte.
const MAX_HEADER: u64 = 11;

/// Reader of the OBUs of a sample. It reads only their headers and sizes.
#[derive(Clone, Copy, Debug)]
pub struct Obus {
    at: u64,
    end: u64,
}

impl Obus {
    /// Reader of a sample.
    pub fn new(sample: Extent) -> Self {
        Self { at: sample.offset, end: sample.end() }
    }

    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        let left = self.end.saturating_sub(self.at);
        (left > 0).then(|| Extent { offset: self.at, length: left.min(MAX_HEADER) })
    }

    /// Takes the requested bytes. Returns `None` for temporal delimiters and tile lists, which RTP must not
    /// carry (AV1 RTP payload format section 5).
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Unit>, UnitError> {
        let fault = |reason| UnitError { what: "OBU", offset: self.at, reason };
        let (&first, rest) = bytes.split_first().ok_or(fault("it ends within its header"))?;
        if first & 0x80 != 0 {
            return Err(fault("its forbidden bit is set"));
        }
        let (extension, rest) = match first & EXTENSION {
            0 => (0, rest),
            _ => rest
                .split_first()
                .map(|(byte, rest)| (*byte, rest))
                .ok_or(fault("it ends within its header"))?,
        };
        let header = if first & EXTENSION == 0 { 1 } else { 2 };
        let (offset, length) = match first & HAS_SIZE {
            0 => (self.at + header, self.end - self.at - header),
            _ => {
                let (size, bytes) = leb128(rest).ok_or(fault("its size cannot be read"))?;
                (self.at + header + bytes, size)
            }
        };
        let extent = Extent { offset, length };
        if extent.end() > self.end {
            return Err(fault("it ends after its sample"));
        }
        let behind = usize::try_from(offset - self.at).ok().and_then(|behind| bytes.get(behind));
        let behind = behind.filter(|_| length > 0).copied().unwrap_or_default();
        self.at = extent.end();
        let unit = Unit { extent, header: [first & !HAS_SIZE, extension], first: behind };
        Ok((!matches!(kind(&unit), TEMPORAL_DELIMITER | TILE_LIST)).then_some(unit))
    }
}

/// Returns whether a temporal unit begins a coded video sequence (section 7.5): it has a sequence header, and
/// its first frame is a shown key frame.
pub(super) fn begins_sequence(obus: &[Unit]) -> bool {
    let Some(sequence) = obus.iter().find(|obu| kind(obu) == SEQUENCE_HEADER) else { return false };
    let frame = obus.iter().find(|obu| matches!(kind(obu), FRAME_HEADER | FRAME));
    // A frame header begins with show_existing_frame, frame_type (2 bits) and show_frame (section 5.9.2),
    // unless the sequence header has reduced_still_picture_header (section 5.5.1).
    frame.is_some_and(|frame| sequence.first & 0x08 != 0 || frame.first >> 4 == 1)
}

/// Layer of an OBU with an extension: its temporal_id and spatial_id.
pub(super) fn layer(obu: &Unit) -> Option<u8> {
    (obu.header[0] & EXTENSION != 0).then_some(obu.header[1] >> 3)
}

/// Type of an OBU.
fn kind(obu: &Unit) -> u8 {
    obu.header[0] >> 3 & 15
}

/// Header of an OBU: one byte, or two with an extension.
pub(super) fn header(obu: &Unit) -> &[u8] {
    if obu.header[0] & EXTENSION == 0 { &obu.header[..1] } else { &obu.header }
}

/// Reads a leb128 number (section 4.10.5) of at most 8 bytes that fits into 32 bits. Returns it and its
/// length.
fn leb128(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return (value <= u64::from(u32::MAX)).then_some((value, index as u64 + 1));
        }
    }
    None
}
