//! Looking at bytes that stay where they are: handlers that see records, or the beginning of records, before
//! these move on the zero-copy route.

use std::ops::Range;

use bytes::BytesMut;

use super::gate::Gate;
use super::{Chain, ChainError, Link, Memory, Passing};
use crate::handler::{Handler, HandlerError, MOST_PEEKED, Peek, Reach, Verdict};
use crate::record::{Piece, Run};

/// Bytes that handlers want to see of what moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Look {
    /// None: there is no handler.
    Nothing,
    /// The first of each record.
    Heads,
    /// All.
    All,
}

/// Most bytes that handlers see at a time: few enough to be in the processor's cache when they move.
const VIEW: usize = 64 * 1024;

impl Chain {
    /// Bytes that its handlers want to see; None if it has others than such that see bytes as they come.
    pub(crate) fn look_kind(&self) -> Option<Look> {
        let of = |link: &Link| match &link.handler {
            Handler::Peek(_) => Some(Look::Heads),
            Handler::Read(handler) if handler.reach() == Reach::Pieces => Some(Look::All),
            _ => None,
        };
        self.links.iter().try_fold(Look::Nothing, |most, link| Some(most.max(of(link)?)))
    }

    /// Bytes to be seen of what moves next, the beginning of a record if `begins`.
    pub(crate) fn view_bytes(&self, begins: bool) -> usize {
        let of = |link: &Link| match &link.handler {
            _ if link.awaits_record && !begins => 0,
            Handler::Peek(handler) if begins => length_of(handler.as_ref()),
            Handler::Peek(_) => 0,
            _ => VIEW,
        };
        self.links.iter().map(of).max().unwrap_or(0)
    }

    /// Bytes of the beginning of a record that are seen at once.
    pub(crate) fn head_bytes(&self) -> usize {
        let of = |link: &Link| match &link.handler {
            Handler::Peek(handler) => length_of(handler.as_ref()),
            _ => 0,
        };
        self.links.iter().map(of).max().unwrap_or(0)
    }

    /// Returns whether a handler has a part of a record that others did not get yet.
    pub(crate) fn is_gathering(&self) -> bool {
        self.links.iter().any(|link| link.gate.is_within_head || !link.gathered.is_empty())
    }

    /// Returns whether the rest of the current record goes no further.
    pub(crate) fn is_dropping(&self) -> bool {
        self.links.iter().any(|link| link.gate.is_dropping)
    }

    /// Shows a piece to all handlers, of which the beginning is as much as [`Chain::view_bytes`] or the record
    /// has.
    pub(crate) fn look(&mut self, piece: Piece<'_>) -> Result<Verdict, ChainError> {
        for link in &mut self.links {
            let judged = link.look(piece);
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
    fn look(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
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
    handler.length().clamp(1, MOST_PEEKED)
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

/// Records that pass by their beginning, as few runs as possible; of those before an error as well. The
/// beginning of a record that comes in pieces is gathered.
pub(super) fn peek(
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

/// Divides a run behind its first `seen` bytes, which are of one record: these, the rest of that record, and
/// the records behind it.
pub(super) fn divide_behind(mut run: Run<Memory>, seen: usize) -> (Run<Memory>, [Option<Run<Memory>>; 2]) {
    let mut record = run.take_bytes(run.bytes_of(1));
    let others = (!run.is_used_up()).then_some(run);
    if seen >= record.bytes.len() {
        return (record, [None, others]);
    }
    let first = Run::single(record.bytes.split_to(seen), record.begins, false);
    (first, [Some(Run::single(record.bytes, false, record.ends)), others])
}
