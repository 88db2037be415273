//! Unit of a sample: a NAL unit, an OBU, or the beginning of a frame.

use crate::track::Extent;

/// Unit of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Place in the asset: of a NAL unit without its length field; of an OBU without its header.
    pub extent: Extent,
    /// First two bytes; the second is 0 if the unit has only one. For an OBU: its header, with the has-size
    /// flag cleared.
    pub header: [u8; 2],
    /// First byte after the header of an OBU; 0 for other units.
    pub first: u8,
}

/// Error in the division of a sample into units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset}: {reason}")]
pub struct UnitError {
    /// Name of the unit.
    pub what: &'static str,
    /// Offset of the unit's length or header in the asset.
    pub offset: u64,
    /// Reason.
    pub reason: &'static str,
}
