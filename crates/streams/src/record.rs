//! Runs of records: the unit that flows through a stream.

use std::ops::{Deref, Range};

use bytes::{Bytes, BytesMut};

/// Contiguous bytes: several records of one length, or a part of one record.
///
/// A byte stream without [framing](crate::Framing) is one endless record: its first run begins the record and
/// its last run ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<B = Bytes> {
    /// The bytes; never empty, except for an empty record.
    pub bytes: B,
    /// Bytes of each record, at least 1. The last record may be shorter.
    pub record_bytes: usize,
    /// True if the first byte is the first of a record. If false, the run is a part of one record.
    pub begins: bool,
    /// True if the last byte is the last of a record. If false, the run is a part of one record.
    pub ends: bool,
}

/// A record of a [`Run`], or a part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The bytes. For a record in several [slices](crate::Reach::Slices), the bytes of the first slice.
    pub bytes: &'a [u8],
    /// The other slices of a record, in order. Empty unless the handler takes slices.
    pub rest: &'a [&'a [u8]],
    /// True if the first byte is the first of a record.
    pub begins: bool,
    /// True if the last byte is the last of a record.
    pub ends: bool,
}

/// A [`Piece`] with mutable bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct PieceMut<'a> {
    /// The bytes.
    pub bytes: &'a mut [u8],
    /// True if the first byte is the first of a record.
    pub begins: bool,
    /// True if the last byte is the last of a record.
    pub ends: bool,
}

impl<B: Deref<Target = [u8]>> Run<B> {
    /// A single record, or a part of a record as given by `begins` and `ends`.
    pub fn single(bytes: B, begins: bool, ends: bool) -> Run<B> {
        let record_bytes = bytes.len().max(1);
        Run { bytes, record_bytes, begins, ends }
    }

    /// Number of records; a part of a record counts as one.
    pub fn records(&self) -> usize {
        self.bytes.len().div_ceil(self.record_bytes).max(1)
    }

    pub(crate) fn begun(&self) -> u64 {
        if self.begins { self.records() as u64 } else { 0 }
    }

    pub(crate) fn is_only_end(&self) -> bool {
        self.bytes.is_empty() && self.ends && !self.begins
    }

    /// The record at `index`, and its range.
    pub fn piece(&self, index: usize) -> (Range<usize>, Piece<'_>) {
        let begin = (index * self.record_bytes).min(self.bytes.len());
        let end = (begin + self.record_bytes).min(self.bytes.len());
        let (begins, ends) = (self.begins || index > 0, self.ends || end < self.bytes.len());
        let piece = Piece::part(&self.bytes[begin..end], begins, ends);
        (begin..end, piece)
    }

    /// The records in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        (0..self.records()).map(|index| self.piece(index).1)
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the records of the first `length` bytes by `split`. `length` must end between records.
    pub(crate) fn take_by(&mut self, length: usize, split: impl FnOnce(&mut B, usize) -> B) -> Run<B> {
        let is_all = length == self.bytes.len();
        let bytes = split(&mut self.bytes, length);
        let first =
            Run { bytes, record_bytes: self.record_bytes, begins: self.begins, ends: self.ends || !is_all };
        self.begins |= length > 0;
        first
    }

    /// Bytes of the first `count` records, or of all records if there are fewer.
    pub(crate) fn bytes_of(&self, count: usize) -> usize {
        count.saturating_mul(self.record_bytes).min(self.bytes.len())
    }
}

impl<B> Run<B> {
    /// Converts the memory of the run; the records stay the same.
    pub(crate) fn map<C>(self, into: impl FnOnce(B) -> C) -> Run<C> {
        let Run { bytes, record_bytes, begins, ends } = self;
        Run { bytes: into(bytes), record_bytes, begins, ends }
    }
}

impl Run {
    /// Takes the first `count` records, or all if there are fewer.
    pub(crate) fn take_records(&mut self, count: usize) -> Run {
        self.take_by(self.bytes_of(count), Bytes::split_to)
    }

    /// Records of a byte range that begins and ends between records.
    pub(crate) fn part(&self, range: Range<usize>) -> Run {
        let is_first = range.start == 0;
        let is_last = range.end == self.bytes.len();
        Run {
            bytes: self.bytes.slice(range),
            record_bytes: self.record_bytes,
            begins: self.begins || !is_first,
            ends: self.ends || !is_last,
        }
    }
}

/// Records in memory that only this run owns.
impl Run<BytesMut> {
    /// Takes the first record.
    pub(crate) fn take_first(&mut self) -> Run<BytesMut> {
        self.take_by(self.bytes_of(1), BytesMut::split_to)
    }
}

impl<'a> Piece<'a> {
    /// A whole record.
    pub fn whole(bytes: &'a [u8]) -> Piece<'a> {
        Piece::part(bytes, true, true)
    }

    /// A part of a record, as given by `begins` and `ends`.
    pub fn part(bytes: &'a [u8], begins: bool, ends: bool) -> Piece<'a> {
        Piece { bytes, rest: &[], begins, ends }
    }

    /// A whole record in slices.
    pub fn in_slices(slices: &'a [&'a [u8]]) -> Piece<'a> {
        let (first, rest) = slices.split_first().map_or((&[][..], &[][..]), |(first, rest)| (*first, rest));
        Piece { rest, ..Piece::whole(first) }
    }

    /// All slices, in order.
    pub fn slices(self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::once(self.bytes).chain(self.rest.iter().copied())
    }

    /// Total bytes of all slices.
    pub fn length(self) -> usize {
        self.slices().map(<[u8]>::len).sum()
    }

    /// Copies bytes from `offset` on, across slices, until the record ends or `out` is full. Returns the
    /// number of bytes copied.
    pub fn copy_to(self, mut offset: usize, out: &mut [u8]) -> usize {
        let mut copied = 0;
        for slice in self.slices() {
            let bytes = slice.get(offset..).unwrap_or_default();
            let bytes = &bytes[..bytes.len().min(out.len() - copied)];
            out[copied..copied + bytes.len()].copy_from_slice(bytes);
            copied += bytes.len();
            offset = offset.saturating_sub(slice.len());
        }
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run { bytes: Bytes::from_static(b"aabbc"), record_bytes: 2, begins: true, ends: true }
    }

    #[test]
    fn a_run_is_divided_into_records_of_which_the_last_may_be_shorter() {
        let run = run();
        assert_eq!(run.records(), 3);
        assert_eq!(run.pieces().collect::<Vec<_>>(), [&b"aa"[..], b"bb", b"c"].map(Piece::whole));
    }

    #[test]
    fn a_part_of_a_record_is_one_piece_and_so_is_an_empty_record() {
        let part = Run::single(Bytes::from_static(b"part"), false, false);
        assert_eq!(part.pieces().collect::<Vec<_>>(), [Piece::part(b"part", false, false)]);
        let empty = Run::single(Bytes::new(), true, true);
        assert_eq!(empty.pieces().collect::<Vec<_>>(), [Piece::whole(b"")]);
    }

    #[test]
    fn bytes_are_copied_out_of_the_slices_that_have_them() {
        let slices = [&b"ab"[..], b"", b"cde", b"f"];
        let piece = Piece::in_slices(&slices);
        assert_eq!((piece.length(), piece.slices().collect::<Vec<_>>()), (6, slices.to_vec()));
        for (offset, room, expected) in
            [(0, 9, &b"abcdef"[..]), (1, 2, b"bc"), (2, 3, b"cde"), (4, 9, b"ef"), (6, 1, b""), (9, 1, b"")]
        {
            let mut out = [0; 9];
            let copied = piece.copy_to(offset, &mut out[..room]);
            assert_eq!(&out[..copied], expected, "{offset} {room}");
        }
        assert_eq!(Piece::in_slices(&[]), Piece::whole(b""));
    }

    #[test]
    fn records_are_taken_from_the_front() {
        let mut rest = run();
        assert_eq!(rest.take_records(2).bytes, b"aabb"[..]);
        assert_eq!((&rest.bytes[..], rest.is_used_up()), (&b"c"[..], false));
        assert_eq!(rest.take_records(9).bytes, b"c"[..]);
        assert!(rest.is_used_up());
    }
}
