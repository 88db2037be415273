//! Runs of records, which flow through a stream.

use std::ops::{Deref, Range};

use bytes::{Bytes, BytesMut};

/// Contiguous bytes: some records of one length, or a part of one record.
///
/// A stream whose input has no records (a byte stream without [framing](crate::Framing)) is one record
/// without end: of all its runs, the first begins it and the last ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<B = Bytes> {
    /// The bytes; never empty, except for an empty record.
    pub bytes: B,
    /// Bytes of each record; the last record may be shorter. At least 1.
    pub record_bytes: usize,
    /// True if the first byte is the first of a record. If not, the run is a part of one record.
    pub begins: bool,
    /// True if the last byte is the last of a record. If not, the run is a part of one record.
    pub ends: bool,
}

/// One record of a [`Run`], or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// True if the first byte is the first of a record.
    pub begins: bool,
    /// True if the last byte is the last of a record.
    pub ends: bool,
}

/// A [`Piece`] whose bytes may be changed.
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
    /// A single record, or the part of one that `begins` and `ends` say.
    pub fn single(bytes: B, begins: bool, ends: bool) -> Run<B> {
        let record_bytes = bytes.len().max(1);
        Run { bytes, record_bytes, begins, ends }
    }

    /// Number of records, a part of one counted as one.
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
        let piece = Piece {
            bytes: &self.bytes[begin..end],
            begins: self.begins || index > 0,
            ends: self.ends || end < self.bytes.len(),
        };
        (begin..end, piece)
    }

    /// The records in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        (0..self.records()).map(|index| self.piece(index).1)
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the records of the first `length` bytes, which end between records, by `split`.
    pub(crate) fn take_by(&mut self, length: usize, split: impl FnOnce(&mut B, usize) -> B) -> Run<B> {
        let is_all = length == self.bytes.len();
        let bytes = split(&mut self.bytes, length);
        let first =
            Run { bytes, record_bytes: self.record_bytes, begins: self.begins, ends: self.ends || !is_all };
        self.begins |= length > 0;
        first
    }

    /// Bytes of the first `count` records, or of all if there are no more.
    pub(crate) fn bytes_of(&self, count: usize) -> usize {
        count.saturating_mul(self.record_bytes).min(self.bytes.len())
    }
}

impl<B> Run<B> {
    /// The same records in memory of another kind.
    pub(crate) fn map<C>(self, into: impl FnOnce(B) -> C) -> Run<C> {
        let Run { bytes, record_bytes, begins, ends } = self;
        Run { bytes: into(bytes), record_bytes, begins, ends }
    }
}

impl Run {
    /// Takes the first `count` records; all if there are no more.
    pub(crate) fn take_records(&mut self, count: usize) -> Run {
        self.take_by(self.bytes_of(count), Bytes::split_to)
    }

    /// Records of a range of its bytes, which begins and ends between records.
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

/// Records that nobody else has.
impl Run<BytesMut> {
    /// Takes the first record.
    pub(crate) fn take_first(&mut self) -> Run<BytesMut> {
        self.take_by(self.bytes_of(1), BytesMut::split_to)
    }
}

impl<'a> Piece<'a> {
    /// A whole record.
    pub fn whole(bytes: &'a [u8]) -> Piece<'a> {
        Piece { bytes, begins: true, ends: true }
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
        assert_eq!(part.pieces().collect::<Vec<_>>(), [Piece { bytes: b"part", begins: false, ends: false }]);
        let empty = Run::single(Bytes::new(), true, true);
        assert_eq!(empty.pieces().collect::<Vec<_>>(), [Piece::whole(b"")]);
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
