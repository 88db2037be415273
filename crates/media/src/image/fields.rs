//! Fields of the format: little-endian numbers at fixed offsets, which are read, written and checked by name.

use std::marker::PhantomData;

use super::error::{Error, Part};

/// Number at an offset of a part or record.
pub(super) struct Field<T> {
    offset: usize,
    /// Name in error messages.
    name: &'static str,
    number: PhantomData<T>,
}

impl<T> Field<T> {
    pub(super) const fn new(offset: usize, name: &'static str) -> Self {
        Self { offset, name, number: PhantomData }
    }
}

/// Number type of a field.
pub(super) trait Number: Copy {
    fn read(bytes: &[u8]) -> Option<Self>;
    fn write(self, bytes: &mut [u8]);
    /// Value in error messages.
    fn shown(self) -> u64;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|bytes| Self::from_le_bytes(*bytes))
            }
            fn write(self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }
            fn shown(self) -> u64 {
                self as u64
            }
        }
    )*};
}

numbers!(u16, u32, u64, i64);

/// Writes a field of a part or record.
pub(super) fn put<T: Number>(record: &mut [u8], field: Field<T>, value: T) {
    value.write(&mut record[field.offset..]);
}

/// Part of an image, or a record in it, to be read.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    part: Part,
    /// Offset of `bytes` in the part.
    base: u64,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// Record with `bytes`, which are at offset `base` of `part`.
    pub(super) fn new(part: Part, base: usize, bytes: &'a [u8]) -> Self {
        Self { part, base: base as u64, bytes }
    }

    /// Splits `bytes`, which are at offset `base` of `part`, into records of `length` bytes.
    pub(super) fn each(
        part: Part,
        base: usize,
        bytes: &'a [u8],
        length: usize,
    ) -> impl Iterator<Item = Self> + 'a {
        let record = move |(index, bytes)| Self::new(part, base + index * length, bytes);
        bytes.chunks_exact(length).enumerate().map(record)
    }

    pub(super) fn get<T: Number>(self, field: Field<T>) -> T {
        self.number(field.offset)
    }

    /// Returns an error about a field unless `holds`.
    pub(super) fn check<T: Number>(
        self,
        holds: bool,
        field: Field<T>,
        rule: &'static str,
    ) -> Result<(), Error> {
        if holds {
            return Ok(());
        }
        let Field { offset, name, .. } = field;
        let found = self.number::<T>(offset).shown();
        Err(Error::Field { part: self.part, offset: self.base + offset as u64, field: name, found, rule })
    }

    fn number<T: Number>(self, offset: usize) -> T {
        let number = self.bytes.get(offset..).and_then(T::read);
        number.expect("records are cut to their length before they are read")
    }
}

/// Returns an error about a sum of fields, at `offset` of a part, unless it is `expected`.
pub(super) fn check_sum(
    part: Part,
    offset: usize,
    field: &'static str,
    found: u64,
    expected: u64,
    rule: &'static str,
) -> Result<(), Error> {
    let offset = offset as u64;
    if found == expected { Ok(()) } else { Err(Error::Field { part, offset, field, found, rule }) }
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
