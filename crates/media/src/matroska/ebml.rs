//! EBML (RFC 8794): elements with an ID, a size and data.

use super::{Error, Id};
use crate::track::Extent;

/// Most bytes of an element's header: ID and size.
pub(super) const MAX_HEADER: usize = 12;

/// Header of an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) id: Id,
    /// Offset of the element in the file.
    pub(super) offset: u64,
    /// Bytes of ID and size.
    pub(super) length: u64,
    /// Bytes of data; `None` if unknown (section 6.2).
    pub(super) size: Option<u64>,
}

impl Header {
    /// Reads a header from `bytes`, which have [`MAX_HEADER`] bytes or extend to the end of the enclosing
    /// element. `offset`: offset of the element in the file.
    pub(super) fn read(bytes: &[u8], offset: u64) -> Result<Self, Error> {
        let fault = |reason| Error::Bytes { offset, reason };
        let first = bytes.first().copied().unwrap_or_default();
        let id_length = first.leading_zeros() as usize + 1;
        if id_length > 4 {
            return Err(fault("its identifier has more than 4 bytes"));
        }
        let (id, rest) = bytes.split_at_checked(id_length).ok_or(fault("it ends within its identifier"))?;
        let id = Id(id.iter().fold(0, |id, byte| id << 8 | u32::from(*byte)));
        let Number { value, length, unknown } = number(rest).ok_or(fault("its size cannot be read"))?;
        let size = (!unknown).then_some(value);
        Ok(Self { id, offset, length: (id_length + length) as u64, size })
    }

    /// Offset of the data.
    pub(super) fn data(&self) -> u64 {
        self.offset + self.length
    }

    /// Extent of the data; an error if the size is unknown or the data ends after `end`.
    pub(super) fn body(&self, end: u64) -> Result<Extent, Error> {
        let length = self.size.ok_or_else(|| self.error("its size is unknown"))?;
        let body = Extent { offset: self.data(), length };
        match self.data().checked_add(length) {
            Some(last) if last <= end => Ok(body),
            _ => Err(self.error("it ends after the element that it is in")),
        }
    }

    pub(super) fn error(&self, reason: &'static str) -> Error {
        Error::Element { id: self.id, offset: self.offset, reason }
    }
}

/// Variable-size integer (section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) value: u64,
    /// Number of bytes, 1 to 8.
    pub(super) length: usize,
    /// True if all bits of the value are 1: an unknown size.
    pub(super) unknown: bool,
}

/// Reads a variable-size integer.
pub(super) fn number(bytes: &[u8]) -> Option<Number> {
    let first = *bytes.first()?;
    let length = first.leading_zeros() as usize + 1;
    let bytes = bytes.get(..length).filter(|_| length <= 8)?;
    let all = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    let mask = (1 << (7 * length)) - 1;
    Some(Number { value: all & mask, length, unknown: all & mask == mask })
}

/// Element in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub(super) header: Header,
    pub(super) data: &'a [u8],
}

impl<'a> Element<'a> {
    /// Child elements.
    pub(super) fn children(&self) -> Elements<'a> {
        Elements { bytes: self.data, offset: self.header.data() }
    }

    /// Unsigned integer (section 7.2); 0 if it has no bytes.
    pub(super) fn unsigned(&self) -> Result<u64, Error> {
        match self.data.len() {
            0..=8 => Ok(self.data.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))),
            _ => Err(self.header.error("an integer has at most 8 bytes")),
        }
    }

    /// Floating-point number (section 7.3).
    pub(super) fn float(&self) -> Result<f64, Error> {
        if let Some(bytes) = self.data.first_chunk().filter(|_| self.data.len() == 4) {
            return Ok(f32::from_be_bytes(*bytes).into());
        }
        match self.data.first_chunk() {
            Some(bytes) if self.data.len() == 8 => Ok(f64::from_be_bytes(*bytes)),
            _ if self.data.is_empty() => Ok(0.0),
            _ => Err(self.header.error("a floating-point number has 0, 4 or 8 bytes")),
        }
    }

    /// Text, up to the first zero byte.
    pub(super) fn text(&self) -> &'a str {
        let length = self.data.iter().position(|byte| *byte == 0).unwrap_or(self.data.len());
        str::from_utf8(&self.data[..length]).unwrap_or_default()
    }
}

/// Iterator over consecutive elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements<'a> {
    bytes: &'a [u8],
    offset: u64,
}

impl<'a> Elements<'a> {
    /// Elements of `bytes`, which begin at `offset` of the file.
    pub(super) fn new(bytes: &'a [u8], offset: u64) -> Self {
        Self { bytes, offset }
    }

    fn read(&self) -> Result<Element<'a>, Error> {
        let header = Header::read(self.bytes, self.offset)?;
        let body = header.body(self.offset + self.bytes.len() as u64)?;
        let start = header.length as usize;
        Ok(Element { header, data: &self.bytes[start..start + body.length as usize] })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let found = self.read();
        let length = match &found {
            Ok(found) => found.header.length as usize + found.data.len(),
            Err(_) => self.bytes.len(),
        };
        self.bytes = &self.bytes[length..];
        self.offset += length as u64;
        Some(found)
    }
}
