//! Recognizes a file that grows.

use crate::track::Extent;

/// Most bytes of a box by which it is recognized.
const MOST_BYTES: u64 = 4096;

/// Checksum of the first bytes of a box as they were read. A file that was written anew has other bytes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where these bytes are.
    pub extent: Extent,
    checksum: u32,
}

impl Mark {
    /// Mark of a box that begins at `offset`.
    pub(super) fn of(bytes: &[u8], offset: u64) -> Self {
        let length = MOST_BYTES.min(bytes.len() as u64);
        let extent = Extent { offset, length };
        Self { extent, checksum: crc32c::crc32c(&bytes[..length as usize]) }
    }

    /// Returns whether these are the bytes of the extent that were read.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.extent.length && crc32c::crc32c(bytes) == self.checksum
    }
}
