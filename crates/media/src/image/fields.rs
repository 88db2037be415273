//! Little-endian fields at known places, and rules about them.

use super::error::{Error, Part};

/// A part of an image that is read.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    part: Part,
    /// Byte of the part at which `bytes` begin.
    base: u64,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Fields in `bytes`, which lie at byte `base` of `part`.
    pub(super) fn new(part: Part, base: u64, bytes: &'a [u8]) -> Self {
        Self { part, base, bytes }
    }

    pub(super) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub(super) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub(super) fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    pub(super) fn i64(self, at: usize) -> i64 {
        i64::from_le_bytes(self.array(at))
    }

    /// An error about the field at `at` unless `holds`.
    pub(super) fn check(
        self,
        holds: bool,
        at: usize,
        field: &'static str,
        found: impl Into<u64>,
        rule: &'static str,
    ) -> Result<(), Error> {
        let offset = self.base + at as u64;
        if holds {
            Ok(())
        } else {
            Err(Error::Field { part: self.part, offset, field, found: found.into(), rule })
        }
    }

    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        let slice = self.bytes.get(at..).and_then(<[u8]>::first_chunk);
        *slice.expect("records are cut to their length before they are read")
    }
}

/// Checks the CRC-32C of `bytes`.
pub(super) fn check_crc(part: Part, bytes: &[u8], stored: u32) -> Result<(), Error> {
    let computed = crc32c::crc32c(bytes);
    if computed == stored { Ok(()) } else { Err(Error::Checksum { part, stored, computed }) }
}

/// Checks the length of a part.
pub(super) fn check_length(part: Part, bytes: &[u8], expected: u64) -> Result<(), Error> {
    let found = bytes.len() as u64;
    if found == expected { Ok(()) } else { Err(Error::Length { part, expected, found }) }
}
