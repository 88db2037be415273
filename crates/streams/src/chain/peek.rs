//! Peeking: a handler sees records, or the beginning of records, before they move on the zero-copy route.

use std::ops::Range;

use bytes::BytesMut;

use super::gate::Gate;
use super::{Chain, ChainError, Link, Memory, Passing};
use crate::handler::{Handler, HandlerError, MAX_PEEK_BYTES, Peek, Reach, Verdict};
use crate::hot_blocks;
use crate::record::{Piece, Run};

/// Part of each record that a handler peeks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeekScope {
    /// Nothing: the chain has no handler.
    Nothing,
    /// The first bytes.
    Heads,
    /// All bytes.
    All,
}

impl Chain {
    /// Part of records that the handler peeks at; None if bytes have to be copied for handlers. Several
    /// handlers need copies: a handler before another handler that drops a record sees all of the record.
    pub(crate) fn peek_scope(&self) -> Option<PeekScope> {
        match &self.links[..] {
            [] => Some(PeekScope::Nothing),
            [link] => match &link.handler {
                Handler::Peek(_) => Some(PeekScope::Heads),
                Handler::Read(handler) if handler.reach() == Reach::Pieces => Some(PeekScope::All),
                _ => None,
            },
            _ => None,
        }
    }

    /// Bytes to peek at before the next bytes move; `begins` is true at the beginning of a record.
    pub(crate) fn peek_bytes(&self, begins: bool) -> usize {
        let of = |link: &Link| match &link.handler {
            _ if link.awaits_record && !begins => 0,
            Handler::Peek(handler) if begins => length_of(handler.as_ref()),
            Handler::Peek(_) => 0,
            _ => hot_blocks::piece() / 2,
        };
        self.links.iter().map(of).max().unwrap_or(0)
    }

    /// Bytes of the beginning of a record that handlers see at once.
    pub(crate) fn head_bytes(&self) -> usize {
        let of = |link: &Link| match &link.handler {
            Handler::Peek(handler) => length_of(handler.as_ref()),
            _ => 0,
        };
        self.links.iter().map(of).max().unwrap_or(0)
    }

    /// Returns whether a handler holds a part of a record that the following handlers have not got yet.
    pub(crate) fn is_gathering(&self) -> bool {
        self.links.iter().any(|link| link.gate.is_within_head || link.gathered_bytes() > 0)
    }

    /// Returns whether the rest of the current record is dropped.
    pub(crate) fn is_dropping(&self) -> bool {
        self.links.iter().any(|link| link.gate.is_dropping)
    }

    /// Shows a piece to all handlers. The beginning of a record has [`Chain::peek_bytes`] bytes, or all bytes
    /// of a shorter record.
    pub(crate) fn peek(&mut self, piece: Piece<'_>) -> Result<Verdict, ChainError> {
        self.within_record = !piece.ends;
        for link in &mut self.links {
            let judged = link.peek(piece).and_then(|verdict| link.check_state().map(|()| verdict));
            let name = link.handler.name();
            let judged = judged.map_err(|error| ChainError { handler: name, error });
            self.has_failed |= judged.is_err();
            if judged? == Verdict::Drop {
                return Ok(Verdict::Drop);
            }
        }
        Ok(Verdict::Pass)
    }
}

impl Link {
    fn peek(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        self.awaits_record &= !piece.begins;
        if self.awaits_record {
            return Ok(Verdict::Pass);
        }
        let mut passing = Passing::default();
        let range = 0..piece.bytes.len();
        match &mut self.handler {
            Handler::Read(handler) => {
                passing.judge(&mut self.gate, range, piece, || handler.read(piece))?;
            }
            Handler::Peek(handler) => {
                judge_head(handler.as_mut(), &mut self.gate, &mut passing, range, piece)?
            }
            _ => {}
        }
        Ok(if self.gate.is_dropping { Verdict::Drop } else { Verdict::Pass })
    }
}

fn length_of(handler: &dyn Peek) -> usize {
    handler.length().clamp(1, MAX_PEEK_BYTES)
}

fn judge_head(
    handler: &mut dyn Peek,
    gate: &mut Gate,
    passing: &mut Passing,
    range: Range<usize>,
    piece: Piece<'_>,
) -> Result<(), HandlerError> {
    let head = &piece.bytes[..length_of(handler).min(piece.bytes.len())];
    passing.judge(gate, range, piece, || if piece.begins { handler.peek(head) } else { Ok(Verdict::Pass) })
}

/// Appends the records that pass by their beginning to `out`, as few runs as possible; records before an
/// error are included. The beginning of a record that comes in pieces is gathered.
pub(super) fn peek_heads(
    handler: &mut dyn Peek,
    gate: &mut Gate,
    passing: &mut Passing,
    gathered: &mut BytesMut,
    mut run: Run<Memory>,
    out: &mut Vec<Run<Memory>>,
) -> Result<(), HandlerError> {
    let length = length_of(handler);
    if gate.is_within_head || run.begins && !run.ends && run.bytes.len() < length {
        let missing = length.saturating_sub(gathered.len()).min(run.bytes.len());
        gathered.extend_from_slice(&run.bytes.split_to(missing));
        gate.is_within_head = gathered.len() < length && !run.ends;
        if gate.is_within_head {
            return Ok(());
        }
        let is_all = run.bytes.is_empty();
        let head = Run::single(Memory::Own(gathered.split()), true, run.ends && is_all);
        let (range, piece) = head.piece(0);
        let judged = judge_head(handler, gate, passing, range, piece);
        passing.put(head, out);
        judged?;
        if is_all {
            return Ok(());
        }
        run = Run::single(run.bytes, false, run.ends);
    }
    let judged = (0..run.records()).try_for_each(|index| {
        let (range, piece) = run.piece(index);
        judge_head(handler, gate, passing, range, piece)
    });
    passing.put(run, out);
    judged
}
