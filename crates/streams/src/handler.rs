//! Handlers: application code that records pass through. The stream handlers of the KStreams paper (section
//! 3.2, figure 5).
//!
//! The kind of a handler declares its access, so the stream knows which bytes can stay in the kernel: `Read`
//! passes or drops records, `Peek` decides by their first bytes, `Select` returns parts of them and bytes of
//! its own, `Modify` changes bytes in place, and `Rewrite` fills a buffer of the stream.
//!
//! Handlers get records as they arrive: a long record in pieces, unless the handler asks for whole records,
//! in contiguous memory or in slices. [`Reach`] bounds the bytes that a stream gathers for a handler. A
//! handler owns its state and declares a bound for it; a handler that exceeds its bound has failed
//! ([`Common::state_limit`]).

mod name;
mod passing;

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use bytes::Bytes;

use crate::record::{Piece, PieceMut};
use crate::trust::Trust;
pub use name::{HandlerNameError, handler_name};

/// A handler of one of five kinds.
pub enum Handler {
    /// Sees all bytes and decides whether a record passes.
    Read(Box<dyn Read>),
    /// Sees the first bytes of each record and decides whether the record passes. The other bytes need not be
    /// read.
    Peek(Box<dyn Peek>),
    /// Keeps parts of a record and adds bytes of its own, without a copy.
    Select(Box<dyn Select>),
    /// Changes bytes in place; records keep their lengths.
    Modify(Box<dyn Modify>),
    /// Writes new records.
    Rewrite(Box<dyn Rewrite>),
}

/// Form in which a handler takes records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// As they arrive: a record may come in several consecutive pieces.
    Pieces,
    /// Whole and contiguous: a record that arrives in pieces is copied together. A record longer than the
    /// limit is [refused](HandlerError::Refused).
    Records {
        /// Bytes of the longest record.
        limit: usize,
    },
    /// Whole, in [slices](Piece::slices) that stay where they were read (`processdatav`): nothing is copied,
    /// except for short slices of a record that has more than 16. For handlers that read, select or rewrite;
    /// for other kinds the same as [`Reach::Records`].
    ///
    /// While a record arrives, its input keeps its turn, as with [`Reach::Pieces`]. If the order or an output
    /// needs whole records, each record has one slice.
    Slices {
        /// Bytes of the longest record, at most 16 MiB.
        limit: usize,
    },
}

/// Error of a handler; the text is for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// The record is invalid for the handler. In a stream that takes datagrams, which anyone may send, the
    /// record is dropped and counted, and the first such record is
    /// [reported](crate::StreamEvent::RecordRefused). In a stream of bytes only, or if a part of the record
    /// has left already, the error ends the stream.
    #[error("{0}")]
    Refused(String),
    /// The handler cannot continue. The error ends the stream, not the engine.
    #[error("{0}")]
    Failed(String),
}

/// Number of a handler, unique within its stream. Handlers of the stream and of its outputs are counted
/// together, in the order of adding; a handler that replaces another takes its number.
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
    /// Number of the handler.
    pub id: HandlerId,
    /// Name of the handler.
    pub name: &'static str,
    /// Bytes of the handler's state, as reported by the handler.
    pub state_bytes: usize,
    /// Most bytes of the handler's state.
    pub state_limit: usize,
    /// The handler, of an output, is in force only below this trust; None if it always is.
    pub trust_below: Option<Trust>,
    /// False if the handler is not in force and sees no records.
    pub is_in_force: bool,
    /// Changes of the handler that wait for the end of a record, in the order in which they will be made. Until
    /// then, everything else here is of the handler as it was.
    pub waiting: Vec<WaitingChange>,
}

/// Change of a handler that waits for the end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingChange {
    /// A control message.
    Control,
    /// Removal.
    Remove,
    /// Replacement by another handler.
    Replace,
    /// Suspension, since the trust in the output's peer no longer asks for the handler.
    Suspend,
}

impl WaitingChange {
    /// Name of the change.
    pub fn name(self) -> &'static str {
        match self {
            WaitingChange::Control => "control",
            WaitingChange::Remove => "remove",
            WaitingChange::Replace => "replace",
            WaitingChange::Suspend => "suspend",
        }
    }
}

/// Default of [`Common::state_limit`].
pub const DEFAULT_STATE_LIMIT: usize = 1 << 20;

/// Decision on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The record passes.
    Pass,
    /// The record is dropped. A verdict on the first piece holds for the whole record, whose other pieces are
    /// not shown; a verdict on a later piece has no effect, because the first piece has left.
    Drop,
}

/// Name, reach, report, state and control of a handler, common to all kinds.
pub trait Common: Send {
    /// Name of the handler, for errors and tables.
    fn name(&self) -> &'static str;

    /// Form in which the handler takes records.
    fn reach(&self) -> Reach {
        Reach::Pieces
    }

    /// Counts and findings so far, by name: for the table of streams, `/metrics` and JSON.
    fn report(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Most bytes of the handler's state, which is memory that grows with the records it sees. A handler
    /// whose [state](Common::state_bytes) is larger has failed; this ends its stream and no other.
    fn state_limit(&self) -> usize {
        DEFAULT_STATE_LIMIT
    }

    /// Current bytes of the handler's state. Queried after each run of records and after each control
    /// message.
    fn state_bytes(&self) -> usize {
        0
    }

    /// Handles a [control message](crate::Stream::control_handler) between two records, and returns the
    /// answer.
    ///
    /// # Errors
    /// A refused message is returned to its sender with the reason, without any other effect. Any other error
    /// ends the stream, too.
    fn control(&mut self, _message: &[u8]) -> Result<Vec<u8>, HandlerError> {
        Err(HandlerError::Refused(format!("{} takes no control messages", self.name())))
    }

    /// The handler as [`Any`], for an application that looks for handlers of its own type in a
    /// [stream](crate::Stream::handlers). None hides the type.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// A handler that sees all bytes: a checksum, a meter, a filter.
pub trait Read: Common {
    /// Sees the next piece.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError>;

    /// Handles the end: no more pieces follow.
    ///
    /// # Errors
    /// The error ends a stream that would otherwise have ended well.
    fn end(&mut self) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// A handler that sees the first bytes of each record: its header.
///
/// If the only handler is of this kind, large records, and a byte stream without framing, go from a file or
/// socket to connections without a copy to the program.
pub trait Peek: Common {
    /// Number of bytes that the handler sees, 1 to [`MAX_PEEK_BYTES`].
    fn length(&self) -> usize;

    /// Sees the beginning of the next record: [`Peek::length`] bytes, or all bytes of a shorter record.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError>;

    /// Handles the end: no more records follow.
    ///
    /// # Errors
    /// The error ends a stream that would otherwise have ended well.
    fn end(&mut self) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// Most bytes that a [`Peek`] handler sees of a record.
pub const MAX_PEEK_BYTES: usize = 16 * 1024;

/// A handler that returns parts of a piece and bytes of its own.
pub trait Select: Common {
    /// Puts the parts of the next piece that pass into `frame`; ranges count from the beginning of the first
    /// slice. A record of which nothing is kept is dropped.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError>;

    /// Handles the end: no more pieces follow.
    ///
    /// # Errors
    /// The error ends a stream that would otherwise have ended well.
    fn end(&mut self) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// A handler that changes bytes in place.
///
/// Bytes that only this stream holds, such as bytes that it has read, are changed in place. Shared bytes,
/// such as parts that a [`Select`] handler kept, or records that a mirror gives to several outputs, are
/// copied first.
pub trait Modify: Common {
    /// Changes the bytes of the next piece, and decides whether a record passes, as [`Read::read`] does.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn modify(&mut self, piece: PieceMut<'_>) -> Result<Verdict, HandlerError>;

    /// Handles the end: no more pieces follow.
    ///
    /// # Errors
    /// The error ends a stream that would otherwise have ended well.
    fn end(&mut self) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// A handler that writes new records.
pub trait Rewrite: Common {
    /// Most bytes that a piece of `length` bytes may become.
    fn room(&self, length: usize) -> usize;

    /// Writes the new bytes of the next piece to the front of `out`, which has at least [`Rewrite::room`]
    /// bytes with arbitrary contents; returns their number. None drops the record.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError>;
}

/// Parts of a piece that a [`Select`] handler keeps or adds, in order.
pub struct Frame<'a> {
    length: usize,
    parts: &'a mut Vec<FramePart>,
    /// Memory that holds the slices of the piece.
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

    /// Bytes of a slice of the piece, or of a part of a slice, that stay valid after the call, without a
    /// copy. None if `part` does not belong to the piece. As long as the bytes are kept, their whole block of
    /// memory is kept.
    pub fn share(&self, part: &[u8]) -> Option<Bytes> {
        let wanted = part.as_ptr_range();
        let has = |memory: &&Bytes| {
            let range = memory.as_ptr_range();
            range.start <= wanted.start && wanted.end <= range.end
        };
        self.memory.iter().find(has).map(|memory| memory.slice_ref(part))
    }

    /// Keeps this range of the piece, clipped to its length.
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

    /// Keeps the whole piece, also if the piece is an empty record.
    pub fn keep_all(&mut self) {
        if self.length == 0 {
            self.pass_empty();
        }
        self.keep(0..self.length);
    }

    /// Passes the record, as an empty record if nothing is kept or added.
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
