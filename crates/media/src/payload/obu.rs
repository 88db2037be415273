//! OBUs of a sample of AV1 (AV1 specification section 5.3): a temporal unit in the low-overhead format.

use super::unit::{Unit, UnitError};
use crate::track::Extent;

/// Types of OBUs (section 6.2.2).
pub(super) const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const TILE_LIST: u8 = 8;

/// Flags of an OBU's header: a second byte follows; a size follows.
const EXTENSION: u8 = 0x04;
const HAS_SIZE: u8 = 0x02;

/// Most bytes of header, extension and size.
const MAX_HEADER: u64 = 10;

/// Walk over the OBUs of a sample: reads their headers and sizes, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Obus {
    at: u64,
    end: u64,
}

impl Obus {
    /// A walk over a sample.
    pub fn new(sample: Extent) -> Self {
        Self { at: sample.offset, end: sample.end() }
    }

    /// Bytes that are to be read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        let left = self.end.saturating_sub(self.at);
        (left > 0).then(|| Extent { offset: self.at, length: left.min(MAX_HEADER) })
    }

    /// Takes the bytes that were wanted. Temporal delimiters and tile lists are left out, as RTP has to (AV1
    /// RTP payload format section 5).
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
        self.at = extent.end();
        let unit = Unit { extent, header: [first & !HAS_SIZE, extension] };
        Ok((!matches!(kind(&unit), TEMPORAL_DELIMITER | TILE_LIST)).then_some(unit))
    }
}

/// Type of an OBU.
pub(super) fn kind(obu: &Unit) -> u8 {
    obu.header[0] >> 3 & 15
}

/// Bytes of an OBU's header: with an extension two.
pub(super) fn header(obu: &Unit) -> &[u8] {
    if obu.header[0] & EXTENSION == 0 { &obu.header[..1] } else { &obu.header }
}

/// Number in leb128 (section 4.10.5), at most 32 bits of it in at most 8 bytes, and how many bytes it has.
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
