//! What flows through a stream: runs of records.

use bytes::Bytes;

/// Bytes that lie together: some records of one length, or a part of one record. Cloning and slicing share the bytes.
///
/// A stream whose input has no records (a byte stream without [framing](crate::Framing)) is one record without end: of all its runs,
/// the first begins it and the last ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The bytes; never empty, except for an empty record.
    pub bytes: Bytes,
    /// Bytes of each record; the last record may be shorter. At least 1.
    pub record_bytes: usize,
    /// Whether the first byte is the first of a record. If not, the run is a part of one record.
    pub begins: bool,
    /// Whether the last byte is the last of a record. If not, the run is a part of one record.
    pub ends: bool,
}

/// One record of a [`Run`], or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The bytes.
    pub bytes: Bytes,
    /// Whether the first byte is the first of a record.
    pub begins: bool,
    /// Whether the last byte is the last of a record.
    pub ends: bool,
}

impl Run {
    /// A single record, or the part of one that `begins` and `ends` say.
    pub fn single(bytes: Bytes, begins: bool, ends: bool) -> Run {
        let record_bytes = bytes.len().max(1);
        Run { bytes, record_bytes, begins, ends }
    }

    /// Number of records, a part of one counted as one.
    pub fn records(&self) -> usize {
        self.bytes.len().div_ceil(self.record_bytes).max(1)
    }

    /// The records in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        (0..self.records()).map(|index| {
            let begin = index * self.record_bytes;
            let end = (begin + self.record_bytes).min(self.bytes.len());
            Piece {
                bytes: self.bytes.slice(begin..end),
                begins: self.begins || index > 0,
                ends: self.ends || end < self.bytes.len(),
            }
        })
    }
}

impl Piece {
    /// A whole record.
    pub fn whole(bytes: Bytes) -> Piece {
        Piece { bytes, begins: true, ends: true }
    }
}

impl From<Piece> for Run {
    fn from(piece: Piece) -> Run {
        Run::single(piece.bytes, piece.begins, piece.ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_divided_into_records_of_which_the_last_may_be_shorter() {
        let run = Run { bytes: Bytes::from_static(b"aabbc"), record_bytes: 2, begins: true, ends: true };
        let pieces: Vec<Piece> = run.pieces().collect();
        assert_eq!(run.records(), 3);
        assert_eq!(pieces, [&b"aa"[..], b"bb", b"c"].map(|bytes| Piece::whole(Bytes::from_static(bytes))));
    }

    #[test]
    fn a_part_of_a_record_is_one_piece_and_so_is_an_empty_record() {
        let run = Run::single(Bytes::from_static(b"part"), false, false);
        assert_eq!(
            run.pieces().collect::<Vec<_>>(),
            [Piece { bytes: run.bytes.clone(), begins: false, ends: false }]
        );
        let empty = Run::single(Bytes::new(), true, true);
        assert_eq!(empty.pieces().collect::<Vec<_>>(), [Piece::whole(Bytes::new())]);
    }
}
