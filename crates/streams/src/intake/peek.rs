//! Peeking at the next bytes of an input before they move on the zero-copy route: for a handler, and for a
//! framing that computes the length of each record from its first bytes.

use bytes::BytesMut;

use super::Intake;
use crate::chain::{Chain, ChainError, PeekScope};
use crate::framing::Ahead;
use crate::handler::Verdict;
use crate::hot_blocks;
use crate::object::{Awaited, ObjectError, ReadOutcome};
use crate::record::{Piece, Run};
use crate::shared::Shared;

/// Bytes of a record that are peeked at for its framing.
const MEASURED: usize = 256;

/// Result of peeking.
pub(crate) enum Peeked {
    /// At most this many bytes may move.
    Passes(usize),
    /// This many bytes of a dropped record were read.
    Dropped(usize),
    /// The input has nothing now.
    Nothing,
    Blocked(Awaited),
    End,
    /// The next bytes have to be copied.
    MustCopy,
    Refused(ChainError),
}

impl Intake {
    /// Sets the part of records that a handler peeks at from now on.
    pub(crate) fn set_peek_scope(&mut self, scope: PeekScope) {
        if scope != self.peek_scope {
            self.peek_scope = scope;
            self.zero_copy.note_change();
        }
    }

    /// Shows the next bytes of the input at `place` to its framing, if that has to compute the length of a
    /// record, and to handlers. At most `bytes` bytes of the record are to move.
    pub(crate) fn peek(
        &mut self,
        place: usize,
        chain: &mut Chain,
        bytes: usize,
    ) -> Result<Peeked, ObjectError> {
        let input = &mut self.inputs[place];
        let begins = input.splitter.at_boundary();
        if let Some((port, seen)) = self.seen
            && port == input.port
        {
            return Ok(Peeked::Passes(self.may_move(seen, bytes)));
        }
        if !begins && chain.is_dropping() {
            return self.drop_next(place, bytes);
        }
        let of_handlers = if chain.is_empty() { 0 } else { chain.peek_bytes(begins).min(bytes) };
        let of_framing = if input.splitter.blind().is_none() { MEASURED } else { 0 };
        let wanted = of_handlers.max(of_framing);
        if wanted == 0 {
            return Ok(Peeked::Passes(bytes));
        }
        let mut block = hot_blocks::take(wanted);
        let shown = self.show(place, chain, bytes, wanted, &mut block);
        block.clear();
        hot_blocks::put(block);
        shown
    }

    /// Shows up to `wanted` bytes, which are read into `block`, before at most `bytes` bytes move.
    fn show(
        &mut self,
        place: usize,
        chain: &mut Chain,
        bytes: usize,
        wanted: usize,
        block: &mut BytesMut,
    ) -> Result<Peeked, ObjectError> {
        let input = &mut self.inputs[place];
        let begins = input.splitter.at_boundary();
        match input.object.peek(block, wanted)? {
            ReadOutcome::Bytes(_) => {}
            ReadOutcome::Nothing => return Ok(Peeked::Nothing),
            ReadOutcome::Blocked(awaited) => return Ok(Peeked::Blocked(awaited)),
            _ => return Ok(Peeked::End),
        }
        let bytes = match input.splitter.look_ahead(block) {
            Ahead::Moves(record) => bytes.min(record),
            Ahead::Reads(most) => {
                input.must_copy = Some(most);
                return Ok(Peeked::MustCopy);
            }
        };
        if chain.is_empty() {
            return Ok(Peeked::Passes(bytes));
        }
        block.truncate(bytes);
        let there = block.len();
        if begins && there < chain.head_bytes().min(bytes) {
            input.must_copy = Some(usize::MAX);
            return Ok(Peeked::MustCopy);
        }
        let is_unframed = input.is_unframed();
        let piece = Piece::part(block, begins, !is_unframed && there == input.splitter.awaited());
        let verdict = match chain.peek(piece) {
            Ok(verdict) => verdict,
            Err(error) => return Ok(Peeked::Refused(error)),
        };
        if is_unframed && begins {
            self.begin_unframed(place);
        }
        if verdict == Verdict::Drop {
            return self.drop_next(place, bytes);
        }
        self.seen = Some((self.inputs[place].port, there));
        Ok(Peeked::Passes(self.may_move(there, bytes)))
    }

    /// Number of `bytes` that may move after handlers have seen `seen` bytes.
    fn may_move(&self, seen: usize, bytes: usize) -> usize {
        if self.peek_scope == PeekScope::All { seen.min(bytes) } else { bytes }
    }

    /// Marks the beginning of the endless record; handlers will see its end.
    fn begin_unframed(&mut self, place: usize) {
        let input = &mut self.inputs[place];
        input.splitter.begin_unframed();
        input.records += 1;
        self.counts.records += 1;
        self.last_is_unframed = true;
        self.took(place, false);
    }

    /// Reads up to `bytes` bytes of a dropped record.
    fn drop_next(&mut self, place: usize, bytes: usize) -> Result<Peeked, ObjectError> {
        let input = &mut self.inputs[place];
        let room = bytes.min(hot_blocks::piece());
        let mut block = hot_blocks::take(room);
        let dropped = input.object.read_into(&mut block, room);
        block.clear();
        hot_blocks::put(block);
        let read = match dropped? {
            ReadOutcome::Bytes(read) => read,
            ReadOutcome::Nothing => return Ok(Peeked::Nothing),
            ReadOutcome::Blocked(awaited) => return Ok(Peeked::Blocked(awaited)),
            _ => return Ok(Peeked::End),
        };
        input.bytes += read as u64;
        self.counts.bytes += read as u64;
        self.pass(place, read);
        Ok(Peeked::Dropped(read))
    }

    /// Counts bytes that moved after handlers had seen them.
    pub(super) fn note_seen_moved(&mut self, place: usize, bytes: usize) {
        let port = self.inputs[place].port;
        if let Some((of, seen)) = &mut self.seen
            && *of == port
        {
            *seen = seen.saturating_sub(bytes);
        }
        self.seen = self.seen.filter(|(_, seen)| *seen > 0);
    }

    #[cfg(test)]
    pub(crate) fn has_seen(&self) -> bool {
        self.seen.is_some()
    }

    /// Reads the bytes that a handler has seen and that have not moved, to be handed on after the handler:
    /// part of a record, or of a byte stream. None if there are no such bytes.
    ///
    /// Must be called before any change of records, handlers or inputs: otherwise handlers would see these
    /// bytes again, or their rest would be taken for a record.
    pub(crate) fn take_seen(&mut self, shared: &mut Shared) -> Option<Run<BytesMut>> {
        let (port, seen) = self.seen.take()?;
        let place = self.place_of(port).filter(|place| self.inputs[*place].is_open())?;
        let input = &mut self.inputs[place];
        let (mut bytes, mut missing) = (BytesMut::new(), seen);
        while missing > 0 {
            match input.object.read_into(&mut bytes, missing) {
                Ok(ReadOutcome::Bytes(read)) => missing -= read,
                // Another process truncated the file or read from the connection; an error is reported by the
                // next call.
                Ok(_) | Err(_) => break,
            }
        }
        if bytes.is_empty() {
            return None;
        }
        let read = bytes.len();
        input.bytes += read as u64;
        self.counts.bytes += read as u64;
        shared.turn.add(read as u64);
        let begins = input.splitter.at_boundary();
        let ends = self.pass(place, read).unwrap_or(false);
        self.zero_copy.note_change();
        Some(Run::single(bytes, begins, ends))
    }
}
