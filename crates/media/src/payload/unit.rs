//! Unit of a sample: a NAL unit, an OBU, or the beginning of a frame.

use crate::track::Extent;

/// Unit of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Place in the asset: of a NAL unit, without the length before it; of an OBU, without its header.
    pub extent: Extent,
    /// Its first two bytes; the second is 0 if there is none. Of an OBU its header, without the flag of a
    /// size.
    pub header: [u8; 2],
    /// The byte behind the header of an OBU; else 0.
    pub first: u8,
}

/// A sample that is not divided into units as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset}: {reason}")]
pub struct UnitError {
    /// Name of the unit.
    pub what: &'static str,
    /// Offset of its length or header in the asset.
    pub offset: u64,
    /// Reason.
    pub reason: &'static str,
}
