//! Handlers: code of an application that records pass. The KStreams paper's stream handlers (section 3.2,
//! figure 5).
//!
//! The kind of a handler says what it may do, so the stream knows which bytes can stay where they are:
//! `Read` passes or drops records, `Peek` does so by their first bytes, `Select` answers with parts of them
//! and bytes of its own, `Modify` changes bytes where they are, and `Rewrite` fills a buffer of the stream.
//!
//! Handlers get records as they come: a long record in pieces, unless the handler asks for whole ones, in one
//! piece of memory or in slices. What a stream gathers for a handler is bounded by its [`Reach`]. The state of a
//! handler is its own; it declares a bound, beyond which it has failed ([`Common::state_limit`]).

mod name;
mod passing;

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use bytes::Bytes;

use crate::record::{Piece, PieceMut};
use crate::trust::Trust;
pub use name::{HandlerNameError, handler_name};

/// A handler of one of five kinds.
pub enum Handler {
    /// Sees the bytes and decides whether a record passes.
    Read(Box<dyn Read>),
    /// Sees the first bytes of each record and decides whether it passes. The others need not be read.
    Peek(Box<dyn Peek>),
    /// Keeps parts of a record and adds bytes of its own; nothing is copied.
    Select(Box<dyn Select>),
    /// Changes bytes where they are: records keep their lengths.
    Modify(Box<dyn Modify>),
    /// Makes new bytes.
    Rewrite(Box<dyn Rewrite>),
}

/// Pieces in which a handler takes records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// As they come: a record may be given in several pieces, one after the other.
    Pieces,
    /// Whole, and contiguous: a record that comes in pieces is copied together. A longer record than this many
    /// bytes is [refused](HandlerError::Refused).
    Records {
        /// Bytes of the longest record.
        limit: usize,
    },
    /// Whole, in [slices](Piece::slices) that lie where they were read (`processdatav`): nothing is copied,
    /// except for short slices of a record that has more than 16. For handlers that read, select or rewrite; of
    /// other kinds, as [`Reach::Records`].
    ///
    /// While a record comes, its input keeps its turn, as with [`Reach::Pieces`]. Where the order or an output
    /// needs whole records, these have one slice.
    Slices {
        /// Bytes of the longest record, at most 16 MiB.
        limit: usize,
    },
}

/// Error of a handler, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// The record is invalid for the handler. In a stream that takes datagrams, which anybody may send, the
    /// record is dropped and counted, and the first is [reported](crate::StreamEvent::RecordRefused). In a
    /// stream of bytes only, or if part of the record has gone already, this ends the stream.
    #[error("{0}")]
    Refused(String),
    /// The handler cannot go on. This ends the stream, not the engine.
    #[error("{0}")]
    Failed(String),
}

/// Number of a handler, unique within its stream: handlers are counted as they are added, those of the stream
/// and of its outputs alike, and one that replaces another takes its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub u64);

impl fmt::Display for HandlerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Status of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerStatus {
    /// Its number.
    pub id: HandlerId,
    /// Its name.
    pub name: &'static str,
    /// Bytes that its state takes, as it says.
    pub state_bytes: usize,
    /// Most bytes that its state may take.
    pub state_limit: usize,
    /// Trust below which the handler of an output is in force; None if it always is.
    pub trust_below: Option<Trust>,
    /// False if it is not in force, and sees no records.
    pub is_in_force: bool,
}

/// Default of [`Common::state_limit`].
pub const DEFAULT_STATE_LIMIT: usize = 1 << 20;

/// Decision on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Pass,
    /// It goes no further. For the first piece of a record it holds for the whole record, whose other pieces
    /// are not shown; for a later piece it has no effect, since the first is gone.
    Drop,
}

/// Name, reach, report, state and control, which all handlers have.
pub trait Common: Send {
    /// Its name, for errors and tables.
    fn name(&self) -> &'static str;

    /// Pieces in which it takes records.
    fn reach(&self) -> Reach {
        Reach::Pieces
    }

    /// Counts and findings so far, by name: for the table of streams, `/metrics` and JSON.
    fn report(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Most bytes that its state may take: memory that grows with what it sees. A handler that
    /// [says](Common::state_bytes) that it takes more has failed, which ends its stream and no other.
    fn state_limit(&self) -> usize {
        DEFAULT_STATE_LIMIT
    }

    /// Bytes that its state takes now. Asked behind each run of records, and behind a control message.
    fn state_bytes(&self) -> usize {
        0
    }

    /// Takes a [control message](crate::Stream::control_handler) between two records, and answers it.
    ///
    /// # Errors
    /// A refused message goes back to its sender with the reason, and nothing else happens. Any other error
    /// ends the stream, too.
    fn control(&mut self, _message: &[u8]) -> Result<Vec<u8>, HandlerError> {
        Err(HandlerError::Refused(format!("{} takes no control messages", self.name())))
    }
}

/// A handler that sees the bytes: a checksum, a meter, a filter.
pub trait Read: Common {
    /// Sees the next piece.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError>;

    /// There are no more pieces.
    ///
    /// # Errors
    /// Ends the stream with an error that would have ended well.
    fn end(&mut self) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// A handler that sees the first bytes of records: their header.
///
/// The other bytes of large records of a fixed size, and of a stream of bytes without framing, go from a file
/// or socket to connections without being copied to the program, if all handlers are of this kind.
pub trait Peek: Common {
    /// Number of bytes that it sees, 1 to [`MAX_PEEK_BYTES`].
    fn length(&self) -> usize;

    /// Sees the beginning of the next record: as many bytes as [`Peek::length`] says, or all of a shorter
    /// record.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError>;

    /// There are no more records.
    ///
    /// # Errors
    /// Ends the stream with an error that would have ended well.
    fn end(&mut self) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// Most bytes that a [`Peek`] handler sees of a record.
pub const MAX_PEEK_BYTES: usize = 16 * 1024;

/// A handler that answers with parts of a piece and bytes of its own.
pub trait Select: Common {
    /// Puts the parts of the next piece that go on into `frame`: bytes are counted from the beginning of its
    /// first slice. A record of which nothing is kept goes no further.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError>;

    /// There are no more pieces.
    ///
    /// # Errors
    /// Ends the stream with an error that would have ended well.
    fn end(&mut self) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// A handler that changes bytes where they are.
///
/// Bytes that only this stream has, such as those that it read, are changed in place. Bytes that others have
/// too, such as parts that a [`Select`] handler kept, or those that a mirror gives to several outputs, are
/// copied first.
pub trait Modify: Common {
    /// Changes the bytes of the next piece, and decides whether a record passes, as [`Read::read`] does.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn modify(&mut self, piece: PieceMut<'_>) -> Result<Verdict, HandlerError>;

    /// There are no more pieces.
    ///
    /// # Errors
    /// Ends the stream with an error that would have ended well.
    fn end(&mut self) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// A handler that makes new bytes.
pub trait Rewrite: Common {
    /// Most bytes that a piece of `length` bytes becomes.
    fn room(&self, length: usize) -> usize;

    /// Writes the new bytes of the next piece to the front of `out`, which has at least [`Rewrite::room`]
    /// bytes of any content; returns how many. None if the record goes no further.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError>;
}

/// Parts of a piece that a [`Select`] handler keeps or adds, in order.
pub struct Frame<'a> {
    length: usize,
    parts: &'a mut Vec<FramePart>,
    /// Memory in which the slices of the piece lie.
    memory: &'a [Bytes],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FramePart {
    /// A range of the piece.
    Kept(Range<usize>),
    /// Bytes that the handler made.
    Made(Bytes),
}

impl FramePart {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            FramePart::Kept(range) => range.is_empty(),
            FramePart::Made(bytes) => bytes.is_empty(),
        }
    }
}

impl<'a> Frame<'a> {
    pub(crate) fn new(length: usize, parts: &'a mut Vec<FramePart>, memory: &'a [Bytes]) -> Frame<'a> {
        parts.clear();
        Frame { length, parts, memory }
    }

    /// The bytes of a slice of the piece, or of a part of one, for longer than the call, without a copy. None
    /// if `part` is not of the piece. While they are kept, so is the block of memory in which they lie.
    pub fn share(&self, part: &[u8]) -> Option<Bytes> {
        let wanted = part.as_ptr_range();
        let has = |memory: &&Bytes| {
            let range = memory.as_ptr_range();
            range.start <= wanted.start && wanted.end <= range.end
        };
        self.memory.iter().find(has).map(|memory| memory.slice_ref(part))
    }

    /// Keeps these bytes of the piece, as far as it has them.
    pub fn keep(&mut self, range: Range<usize>) {
        let range = range.start.min(self.length)..range.end.min(self.length);
        if range.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(FramePart::Kept(last)) if last.end == range.start => last.end = range.end,
            _ => self.parts.push(FramePart::Kept(range)),
        }
    }

    /// Keeps all of the piece, also if it is an empty record.
    pub fn keep_all(&mut self) {
        if self.length == 0 {
            self.pass_empty();
        }
        self.keep(0..self.length);
    }

    /// Lets the record go on, as an empty one if nothing is kept or added.
    pub fn pass_empty(&mut self) {
        self.parts.push(FramePart::Kept(0..0));
    }

    /// Adds bytes that the handler made.
    pub fn add(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.parts.push(FramePart::Made(bytes));
        }
    }
}

/// Common part of all handlers.
impl Deref for Handler {
    type Target = dyn Common;

    fn deref(&self) -> &(dyn Common + 'static) {
        match self {
            Handler::Read(handler) => handler.as_ref(),
            Handler::Peek(handler) => handler.as_ref(),
            Handler::Select(handler) => handler.as_ref(),
            Handler::Modify(handler) => handler.as_ref(),
            Handler::Rewrite(handler) => handler.as_ref(),
        }
    }
}

impl DerefMut for Handler {
    fn deref_mut(&mut self) -> &mut (dyn Common + 'static) {
        match self {
            Handler::Read(handler) => handler.as_mut(),
            Handler::Peek(handler) => handler.as_mut(),
            Handler::Select(handler) => handler.as_mut(),
            Handler::Modify(handler) => handler.as_mut(),
            Handler::Rewrite(handler) => handler.as_mut(),
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Handler").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_joins_what_lies_together_and_keeps_nothing_beyond_the_end() {
        let mut parts = vec![FramePart::Kept(0..1)];
        let mut frame = Frame::new(10, &mut parts, &[]);
        frame.keep(0..2);
        frame.keep(2..4);
        frame.add(Bytes::from_static(b"x"));
        frame.add(Bytes::new());
        frame.keep(8..20);
        frame.keep(30..40);
        let expected =
            [FramePart::Kept(0..4), FramePart::Made(Bytes::from_static(b"x")), FramePart::Kept(8..10)];
        assert_eq!(parts, expected);
    }
    /// Promise: A selecting handler can keep bytes of a record after its call, without a copy.
    #[test]
    fn a_frame_shares_the_slices_of_its_piece_and_nothing_else() {
        let memory = [Bytes::from(vec![1, 2, 3]), Bytes::from(vec![4, 5])];
        let (mut parts, foreign) = (Vec::new(), [1, 2, 3]);
        let frame = Frame::new(5, &mut parts, &memory);
        let shared = frame.share(&memory[1][1..]).unwrap();
        assert_eq!((&shared[..], shared.as_ptr()), (&[5][..], memory[1][1..].as_ptr()));
        assert_eq!(frame.share(&foreign), None);
    }
}
