//! Recognizes a file that grows.

use crate::track::Extent;

/// Most bytes by which a file is recognized.
const MOST_BYTES: u64 = 4096;

/// Checksum of bytes as they were read, such as the first ones of a box. A file that was written anew has other bytes
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where these bytes are.
    pub extent: Extent,
    checksum: u32,
}

impl Mark {
    /// Mark of the first of these bytes, such as a box, which begin at `offset`.
    pub(super) fn of(bytes: &[u8], offset: u64) -> Self {
        let length = MOST_BYTES.min(bytes.len() as u64);
        let extent = Extent { offset, length };
        Self { extent, checksum: crc32c::crc32c(&bytes[..length as usize]) }
    }

    /// Mark of the last of these bytes, which begin at `offset`.
    pub(crate) fn of_last(bytes: &[u8], offset: u64) -> Self {
        let before = bytes.len().saturating_sub(MOST_BYTES as usize);
        Self::of(&bytes[before..], offset + before as u64)
    }

    /// Returns whether these are the bytes of the extent that were read.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.extent.length && crc32c::crc32c(bytes) == self.checksum
    }
}
