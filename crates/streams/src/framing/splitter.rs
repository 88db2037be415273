//! Splits the bytes of one input into records.

use bytes::BytesMut;

use super::{Framing, FramingError, LARGE, LONGEST};
use crate::record::Run;

/// Largest record that counts as short.
const SHORT: usize = 4096;

/// After this many records smaller than [`LARGE`], records are read without a look at their length.
const SMALL_RECORDS: u8 = 2;

/// If at least so much of a record is still to come after a read, lengths are looked at again. With less, a
/// change of the route costs more than the copy.
const WORTH_A_CHANGE: usize = 2 * LARGE;

/// Splits the bytes of one input. The bytes come in contiguous buffers, and runs are split off them without a
/// copy, so that each run owns its bytes.
pub(crate) struct Splitter {
    framing: Framing,
    /// Most bytes of a record, if only whole records may be handed on.
    whole: Option<usize>,
    /// Records of at most this many bytes are handed on whole, if their length is known.
    short: usize,
    /// Bytes of the current record that are still to come, if known; between two records, the length of the
    /// next one, if it was [looked at](Splitter::look_ahead). `begun` counts the bytes that have come.
    missing: Option<usize>,
    begun: usize,
    /// True within a record.
    within: bool,
    /// If lengths are computed: number of small records that were read since a large one moved or began, at
    /// most [`SMALL_RECORDS`].
    small_records: u8,
}

/// Result of looking at the first bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// At most this many bytes, all of one record, may take the zero-copy route.
    Moves(usize),
    /// The record has to be read, by a read of at most this many bytes: a large record may follow.
    Reads(usize),
}

impl Splitter {
    pub(crate) fn new(framing: Framing, whole: Option<usize>) -> Splitter {
        let has_large = matches!(&framing, Framing::With { limit, .. } if *limit >= LARGE);
        let small_records = if has_large { 0 } else { SMALL_RECORDS };
        Splitter { framing, whole, short: 0, missing: None, begun: 0, within: false, small_records }
    }

    fn may_wait(&self, bytes: usize) -> Result<(), FramingError> {
        match self.whole {
            Some(limit) if bytes > limit && self.is_whole() => Err(FramingError::Undivided { limit }),
            Some(limit) if bytes > limit => Err(FramingError::TooLong { bytes, limit }),
            _ => Ok(()),
        }
    }

    /// Hands on only whole records of at most `limit` bytes, from the next record on.
    pub(crate) fn need_whole(&mut self, limit: usize) {
        self.whole = Some(self.whole.map_or(limit, |before| before.min(limit)));
    }

    /// Hands on short records whole, from the next record on: waiting for the rest of a short record costs
    /// less than handling two pieces.
    pub(crate) fn keep_short_whole(&mut self) {
        self.short = SHORT;
    }

    /// Returns whether a record of this length is handed on in pieces as they arrive.
    fn divides(&self, length: usize) -> bool {
        self.whole.is_none() && length > self.short
    }

    /// Divides an unframed byte stream into records of this size, from the next record on.
    pub(crate) fn divide_into(&mut self, record_bytes: usize) {
        if self.is_whole() {
            self.framing = Framing::Fixed(record_bytes);
        }
    }

    /// Ends the endless record, if it has begun. Returns its end.
    pub(crate) fn cut(&mut self) -> Option<Run<BytesMut>> {
        let is_within = self.within && self.missing.is_none();
        self.within &= !is_within;
        is_within.then(|| Run::single(BytesMut::new(), false, true))
    }

    /// Returns whether the input is not divided: datagrams are records as they are, and a byte stream is one
    /// record.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.framing, Framing::Whole)
    }

    /// Returns whether the current or next record may take the zero-copy route: it is endless or large, or its
    /// length is to be computed and large ones came lately. False if only whole records may be handed on.
    pub(crate) fn can_zero_copy(&self) -> bool {
        match &self.framing {
            Framing::Whole => true,
            _ if self.whole.is_some() => false,
            Framing::Fixed(length) => *length >= LARGE,
            Framing::With { .. } if self.within => self.small_records == 0,
            Framing::With { .. } => self.small_records < SMALL_RECORDS,
        }
    }

    /// Returns whether lengths are computed from the first bytes of records.
    pub(crate) fn is_measured(&self) -> bool {
        matches!(self.framing, Framing::With { .. })
    }

    /// Bytes of the current or next record that are still to come, if they are known without reading it. None
    /// otherwise, or if only whole records may be handed on.
    pub(crate) fn blind(&self) -> Option<usize> {
        match &self.framing {
            Framing::Whole => Some(usize::MAX),
            _ if self.whole.is_some() => None,
            Framing::Fixed(_) => Some(self.awaited()),
            Framing::With { .. } => self.missing,
        }
    }

    /// Computes the length of the next record from its first bytes, which stay where they are, unless it is
    /// known. If the length needs more bytes, or these are invalid, [next](Splitter::next) has to read them.
    pub(crate) fn look_ahead(&mut self, first: &[u8]) -> Ahead {
        if self.blind().is_none() && !self.within {
            match self.length_of(first, false) {
                Ok(Some(length)) if length < LARGE => return Ahead::Reads(length),
                Ok(Some(length)) => (self.missing, self.small_records) = (Some(length), 0),
                Ok(None) | Err(_) => {}
            }
        }
        self.blind().map_or(Ahead::Reads(usize::MAX), Ahead::Moves)
    }

    /// Counts bytes of a record that moved on the zero-copy route, at most [blind](Splitter::blind) bytes.
    /// None for an undivided byte stream.
    pub(crate) fn pass(&mut self, bytes: usize) -> Option<Passed> {
        if self.is_whole() {
            return None;
        }
        let missing = self.awaited();
        debug_assert!(bytes <= missing);
        let begins = !self.within;
        let ends = bytes >= missing;
        self.begun = if begins { bytes } else { self.begun + bytes };
        (self.within, self.missing) = (!ends, (!ends).then(|| missing - bytes));
        Some(Passed { begins, ends })
    }

    /// Begins the endless record, whose bytes handlers see undivided.
    pub(crate) fn begin_unframed(&mut self) {
        (self.within, self.missing) = (true, None);
    }

    /// Bytes that the current or next record still needs; 0 if unknown.
    pub(crate) fn awaited(&self) -> usize {
        match (self.missing, &self.framing) {
            (Some(missing), _) => missing,
            (None, Framing::Fixed(length)) => (*length).max(1),
            _ => 0,
        }
    }

    /// Returns whether the input is between two records.
    pub(crate) fn at_boundary(&self) -> bool {
        !self.within
    }

    /// Takes the next run from the front of `bytes`. More bytes may be added later unless `is_end`. None if
    /// the next run needs more bytes, or if there are none. After an error the bytes stay.
    pub(crate) fn next(
        &mut self,
        bytes: &mut BytesMut,
        is_end: bool,
    ) -> Result<Option<Run<BytesMut>>, FramingError> {
        self.missing = self.missing.filter(|_| self.within); // the next record is looked at again
        match self.missing {
            Some(missing) => self.go_on(missing, bytes, is_end),
            None => match &self.framing {
                Framing::Whole => {
                    self.may_wait(bytes.len())?;
                    Ok(self.next_of_stream(bytes, is_end))
                }
                Framing::Fixed(length) => {
                    let length = (*length).max(1);
                    self.may_wait(length)?;
                    Ok(self.next_of_fixed(length, bytes, is_end))
                }
                Framing::With { .. } => self.next_measured(bytes, is_end),
            },
        }
    }

    fn next_of_stream(&mut self, bytes: &mut BytesMut, is_end: bool) -> Option<Run<BytesMut>> {
        let is_empty = bytes.is_empty();
        if is_empty && !(is_end && self.within) || self.whole.is_some() && !is_end {
            return None;
        }
        let run = Run::single(all(bytes), !self.within, is_end);
        self.within = !is_end;
        Some(run)
    }

    fn next_of_fixed(&mut self, length: usize, bytes: &mut BytesMut, is_end: bool) -> Option<Run<BytesMut>> {
        let there = bytes.len();
        match (there - there % length, there) {
            (0, 0) => None,
            (0, _) if is_end => Some(Run::single(all(bytes), true, true)),
            (0, there) if self.divides(length) => Some(self.begin(length - there, bytes)),
            (0, _) => None,
            (whole, _) => Some(run_of(bytes.split_to(whole), length)),
        }
    }

    fn next_measured(
        &mut self,
        bytes: &mut BytesMut,
        is_end: bool,
    ) -> Result<Option<Run<BytesMut>>, FramingError> {
        let there = bytes.len();
        let length = self.measure(bytes, is_end)?;
        let least = length.unwrap_or(there);
        if self.whole.is_some() && least > LONGEST {
            return Err(FramingError::TooLong { bytes: least, limit: LONGEST });
        }
        match length {
            Some(length) if length <= there => {
                self.note_read(length, 0);
                Ok(Some(self.run_of_measured(length, bytes, is_end)))
            }
            Some(_) if is_end => Err(FramingError::Cut { bytes: there }),
            Some(length) if self.divides(length) => {
                self.note_read(length, length - there);
                Ok(Some(self.begin(length - there, bytes)))
            }
            _ => Ok(None),
        }
    }

    /// Counts small records that are read, until much of a record is still to come.
    fn note_read(&mut self, length: usize, missing: usize) {
        if length < LARGE {
            self.small_records = (self.small_records + 1).min(SMALL_RECORDS);
        } else if missing >= WORTH_A_CHANGE {
            self.small_records = 0;
        }
    }

    /// Takes as many records of the same length as there are.
    fn run_of_measured(&mut self, length: usize, bytes: &mut BytesMut, is_end: bool) -> Run<BytesMut> {
        let mut whole = length;
        while whole + length <= bytes.len() {
            // An error of a later record is reported when that record is next.
            match self.length_of(&bytes[whole..], is_end) {
                Ok(Some(next)) if next == length => whole += length,
                _ => break,
            }
        }
        run_of(bytes.split_to(whole), length)
    }

    /// Length of the record that begins with `bytes`; None if unknown.
    fn measure(&mut self, bytes: &[u8], is_end: bool) -> Result<Option<usize>, FramingError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        match self.length_of(bytes, is_end)? {
            None if is_end => Err(FramingError::Cut { bytes: bytes.len() }),
            length => Ok(length),
        }
    }

    fn length_of(&mut self, bytes: &[u8], is_end: bool) -> Result<Option<usize>, FramingError> {
        let Framing::With { limit, measure } = &mut self.framing else { return Ok(None) };
        let limit = *limit;
        match measure(bytes, is_end)? {
            Some(0) => Err(FramingError::Wrong("a record of no bytes".to_owned())),
            Some(length) if length > limit => Err(FramingError::TooLong { bytes: length, limit }),
            None if bytes.len() >= limit => Err(FramingError::TooLong { bytes: bytes.len(), limit }),
            length => Ok(length),
        }
    }

    fn begin(&mut self, missing: usize, bytes: &mut BytesMut) -> Run<BytesMut> {
        (self.within, self.missing, self.begun) = (true, Some(missing), bytes.len());
        Run::single(all(bytes), true, false)
    }

    fn go_on(
        &mut self,
        missing: usize,
        bytes: &mut BytesMut,
        is_end: bool,
    ) -> Result<Option<Run<BytesMut>>, FramingError> {
        if bytes.is_empty() && !is_end {
            return Ok(None);
        }
        let part = bytes.split_to(missing.min(bytes.len()));
        let missing = missing - part.len();
        self.begun += part.len();
        let is_cut = missing > 0 && is_end;
        if is_cut && !matches!(self.framing, Framing::Fixed(_)) {
            return Err(FramingError::Cut { bytes: self.begun });
        }
        let ends = missing == 0 || is_cut;
        (self.within, self.missing) = (!ends, (!ends).then_some(missing));
        Ok(Some(Run::single(part, false, ends)))
    }
}

/// Record boundaries among bytes that moved on the zero-copy route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// True if the bytes include the beginning of the record.
    pub(crate) begins: bool,
    /// True if the bytes include the end of the record.
    pub(crate) ends: bool,
}

fn all(bytes: &mut BytesMut) -> BytesMut {
    bytes.split()
}

/// Whole records of one length.
fn run_of(bytes: BytesMut, record_bytes: usize) -> Run<BytesMut> {
    Run { bytes, record_bytes, begins: true, ends: true }
}
