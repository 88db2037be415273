//! Fields of boxes and configurations.

use super::FourCc;

/// Reader of consecutive big-endian fields of a box or a configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn four_cc(&mut self) -> Option<FourCc> {
        self.array().map(FourCc)
    }

    /// Reads version and flags of a full box.
    pub(crate) fn version(&mut self) -> Option<(u8, u32)> {
        let word = self.u32()?;
        Some(((word >> 24) as u8, word & 0xff_ffff))
    }

    /// Reads a number of 64 bits in version 1, otherwise of 32.
    pub(crate) fn long(&mut self, version: u8) -> Option<u64> {
        if version == 1 { self.u64() } else { self.u32().map(u64::from) }
    }
}
