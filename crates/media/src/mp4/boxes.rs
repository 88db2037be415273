//! Boxes (ISO/IEC 14496-12 section 4.2): size, type and contents.

use bytes::Bytes;

use super::{Error, FourCc};
use crate::track::Fields;

/// Most bytes of a box's header: size, type, 64-bit size.
pub(super) const MAX_HEADER_LENGTH: usize = 16;

/// Header of a box.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoxHeader {
    pub(super) kind: FourCc,
    pub(super) header_length: u64,
    /// Length of the whole box; `None` if the box extends to the end of its container.
    pub(super) length: Option<u64>,
}

impl BoxHeader {
    /// Reads a header from `bytes`, which have [`MAX_HEADER_LENGTH`] bytes or extend to the end of the box's
    /// container. `offset`: offset of the box in the file.
    pub(super) fn read(bytes: &[u8], offset: u64) -> Result<Self, Error> {
        let mut fields = Fields(bytes);
        let (size, kind) = (fields.u32(), fields.four_cc());
        let (Some(size), Some(kind)) = (size, kind) else {
            let kind = kind.unwrap_or(FourCc(*b"    "));
            return Err(Error::Box { kind, offset, reason: "it ends within its header" });
        };
        let (header_length, length) = match size {
            0 => (8, None),
            1 => (16, Some(fields.u64().unwrap_or_default())),
            size => (8, Some(u64::from(size))),
        };
        if length.is_some_and(|length| length < header_length) {
            return Err(Error::Box { kind, offset, reason: "its size is smaller than its header" });
        }
        Ok(Self { kind, header_length, length })
    }
}

/// Box in memory.
#[derive(Clone, Debug)]
pub(super) struct MemoryBox {
    pub(super) kind: FourCc,
    /// Offset in the file.
    pub(super) offset: u64,
    /// Bytes after the header.
    pub(super) body: Bytes,
    /// Offset of `body` in the file.
    body_offset: u64,
}

impl MemoryBox {
    /// Reads a box that begins at `offset` of the file.
    pub(super) fn read(bytes: Bytes, offset: u64) -> Result<Self, Error> {
        let header = BoxHeader::read(&bytes, offset)?;
        let length = header.length.unwrap_or(bytes.len() as u64);
        if length > bytes.len() as u64 {
            let reason = "it ends after the box that it is in";
            return Err(Error::Box { kind: header.kind, offset, reason });
        }
        let body = bytes.slice(header.header_length as usize..length as usize);
        Ok(Self { kind: header.kind, offset, body, body_offset: offset + header.header_length })
    }

    /// Child boxes, which begin after `skipped` bytes of the body.
    pub(super) fn children_after(&self, skipped: usize) -> Children {
        let bytes = self.body.slice(skipped.min(self.body.len())..);
        Children { bytes, offset: self.body_offset + skipped as u64 }
    }

    /// Child boxes.
    pub(super) fn children(&self) -> Children {
        self.children_after(0)
    }

    /// First child box of a type.
    pub(super) fn child(&self, kind: &[u8; 4]) -> Result<Option<Self>, Error> {
        self.children().named(kind)
    }

    /// First child box of a type; an error with `reason` if it is missing.
    pub(super) fn need(&self, kind: &[u8; 4], reason: &'static str) -> Result<Self, Error> {
        self.child(kind)?.ok_or_else(|| self.error(reason))
    }

    /// Reads the fields of the box with `read`.
    pub(super) fn fields<T>(&self, read: impl FnOnce(&mut Fields<'_>) -> Option<T>) -> Result<T, Error> {
        read(&mut Fields(&self.body)).ok_or_else(|| self.error("it ends within its fields"))
    }

    pub(super) fn error(&self, reason: &'static str) -> Error {
        Error::Box { kind: self.kind, offset: self.offset, reason }
    }

    /// Slice of the body that shares its memory with `part`.
    pub(super) fn slice(&self, part: &[u8]) -> Bytes {
        self.body.slice_ref(part)
    }
}

/// Iterator over consecutive boxes.
#[derive(Clone, Debug)]
pub(super) struct Children {
    bytes: Bytes,
    offset: u64,
}

impl Children {
    /// Next box of a type.
    pub(super) fn named(mut self, kind: &[u8; 4]) -> Result<Option<MemoryBox>, Error> {
        self.find(|found| found.as_ref().map_or(true, |found| found.kind.0 == *kind)).transpose()
    }
}

impl Iterator for Children {
    type Item = Result<MemoryBox, Error>;

    /// Returns the next box. Less than a header is ignored, since QuickTime ends some lists with four zero
    /// bytes.
    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.len() < 8 {
            return None;
        }
        let found = MemoryBox::read(self.bytes.clone(), self.offset);
        let length = match &found {
            Ok(found) => (found.body_offset - found.offset) as usize + found.body.len(),
            Err(_) => self.bytes.len(),
        };
        self.bytes = self.bytes.slice(length..);
        self.offset += length as u64;
        Some(found)
    }
}
