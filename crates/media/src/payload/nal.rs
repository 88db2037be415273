//! NAL units of a sample, each after its length field (ISO/IEC 14496-15 section 5.3.4.2).

use crate::track::Extent;

pub use super::unit::{Unit as NalUnit, UnitError as NalError};

/// Reader of the NAL units of a sample. It reads only their lengths and headers.
#[derive(Clone, Copy, Debug)]
pub struct NalUnits {
    at: u64,
    end: u64,
    length_size: u8,
}

impl NalUnits {
    /// Reader of a sample whose NAL units follow lengths of `length_size` bytes, 1, 2 or 4.
    pub fn new(sample: Extent, length_size: u8) -> Self {
        Self { at: sample.offset, end: sample.end(), length_size: length_size.clamp(1, 4) }
    }

    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        let left = self.end.saturating_sub(self.at);
        (left > 0).then(|| Extent { offset: self.at, length: left.min(u64::from(self.length_size) + 2) })
    }

    /// Takes the requested bytes. Returns `None` for an empty NAL unit.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<NalUnit>, NalError> {
        let fault = NalError { what: "NAL unit", offset: self.at, reason: "it ends after its sample" };
        let (length, header) = bytes.split_at_checked(self.length_size.into()).ok_or(fault)?;
        let length = length.iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
        let extent = Extent { offset: self.at + u64::from(self.length_size), length };
        if extent.end() > self.end {
            return Err(fault);
        }
        self.at = extent.end();
        let byte = |index: usize| if length > index as u64 { header.get(index).copied() } else { None };
        Ok(byte(0).map(|first| NalUnit { extent, header: [first, byte(1).unwrap_or(0)], first: 0 }))
    }
}
