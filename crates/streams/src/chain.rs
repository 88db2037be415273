//! Chain of handlers, applied to runs in order.

mod change;
mod gate;
mod gather;
mod memory;
mod passing;
mod peek;
mod rewrite;
mod slices;
mod trust;

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use wirepath_datapath::Blocks;

use crate::handler::{
    Frame, FramePart, Handler, HandlerError, HandlerId, HandlerStatus, Modify, Read, Select,
};
use crate::record::{Piece, PieceMut, Run};
use crate::trust::Trust;
pub(crate) use change::{Change, MAX_WAITING_CHANGES, What};
use gate::Gate;
use gather::Whole;
pub(crate) use memory::Memory;
use passing::Passing;
pub(crate) use peek::PeekScope;
use peek::peek_heads;
use rewrite::{Written, rewrite};
use slices::Slices;
use trust::Force;

/// Report of a handler: its name, and the name and value of a figure.
pub(crate) type Report = (&'static str, &'static str, u64);

/// Handlers in the order in which they see the records.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    links: Vec<Link>,
    /// Input and output of a link while a run passes; empty otherwise.
    taken: Vec<Run<Memory>>,
    made: Vec<Run<Memory>>,
    /// A handler failed: nothing after the record at which it failed is sent.
    pub(crate) has_failed: bool,
    /// Bytes that arrived after a handler failed, or that the failed handler did not pass on.
    pub(crate) dropped_bytes: u64,
    /// Handlers have seen the beginning of a record but not its end.
    pub(crate) within_record: bool,
    /// Records that a handler refuses are dropped and counted.
    drops_refused: bool,
    /// Changes of handlers that are deferred to the end of a record.
    changes: VecDeque<Change>,
    /// Trust in the peer of the output that owns these handlers.
    pub(crate) trust: Trust,
}

/// Failure of a handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("handler {handler}: {error}")]
pub(crate) struct ChainError {
    pub(crate) handler: &'static str,
    pub(crate) error: HandlerError,
}

#[derive(Debug)]
struct Link {
    id: HandlerId,
    handler: Handler,
    /// The handler was added within a record and sees nothing of that record.
    awaits_record: bool,
    force: Force,
    gate: Gate,
    /// Pieces of a record for a handler that takes whole records, or of its beginning for a handler that
    /// peeks.
    gathered: BytesMut,
    /// Pieces of a record for a handler that takes whole records in slices.
    slices: Slices,
    /// Memory for the output of the handler.
    blocks: Blocks,
    /// Memory for long pieces that a rewriting handler writes.
    long_blocks: Blocks,
    parts: Vec<FramePart>,
    passing: Passing,
}

/// Size of a block that handlers write: small enough that the next handlers find the bytes in the processor's
/// cache.
const BLOCK: usize = 64 * 1024;

impl Chain {
    pub(crate) fn push(&mut self, id: HandlerId, handler: Handler) {
        self.links.push(Link::new(id, handler, self.drops_refused));
    }

    /// Adds a handler that sees nothing before the next record begins.
    pub(crate) fn push_for_next(&mut self, id: HandlerId, handler: Handler) {
        self.push(id, handler);
        self.links.iter_mut().next_back().into_iter().for_each(|link| link.awaits_record = true);
    }

    /// Returns whether no handler sees records: the chain has no handler, or none in force.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.iter().all(|link| link.force.is_suspended)
    }

    /// Bytes of pieces that are gathered for handlers that take whole records or see their beginning.
    pub(crate) fn gathered(&self) -> usize {
        self.links.iter().map(Link::gathered_bytes).sum()
    }

    /// Drops gathered bytes; returns their number.
    pub(crate) fn drop_gathered(&mut self) -> usize {
        let gathered = self.gathered();
        self.links.iter_mut().for_each(Link::drop_gathered);
        gathered
    }

    /// Drops and counts records that a handler refuses, from now on.
    pub(crate) fn drop_refused(&mut self) {
        self.drops_refused = true;
        self.links.iter_mut().for_each(|link| link.gate.drops_refused = true);
    }

    /// Statuses of the handlers, in order.
    pub(crate) fn statuses(&self) -> Vec<HandlerStatus> {
        let status = |link: &Link| HandlerStatus {
            id: link.id,
            name: link.handler.name(),
            state_bytes: link.handler.state_bytes(),
            state_limit: link.handler.state_limit(),
            trust_below: link.force.below,
            is_in_force: !link.force.is_suspended,
            waiting: self.waiting_changes(link.id),
        };
        self.links.iter().map(status).collect()
    }

    pub(crate) fn handlers(&self) -> impl Iterator<Item = &Handler> {
        self.links.iter().map(|link| &link.handler)
    }

    /// Takes the reason of the first refusal; returns it once.
    pub(crate) fn take_refusal(&mut self) -> Option<ChainError> {
        self.links.iter_mut().find_map(|link| {
            link.gate.first.take().map(|error| ChainError { handler: link.handler.name(), error })
        })
    }

    /// Same as [`Chain::apply`], but counts the bytes dropped because a handler failed, now or earlier,
    /// including bytes gathered for the handler.
    pub(crate) fn handle(
        &mut self,
        run: Run<impl Into<Memory>>,
        out: &mut Vec<Run>,
    ) -> Result<(), ChainError> {
        let run: Run<Memory> = run.map(Into::into);
        if self.has_failed {
            self.dropped_bytes += run.bytes.len() as u64;
            return Ok(());
        }
        let (first, bytes) = (out.len(), self.gathered() + run.bytes.len());
        self.within_record = !run.ends;
        let applied = self.apply(run, out);
        if applied.is_err() {
            let made: usize = out[first..].iter().map(|run| run.bytes.len()).sum();
            self.dropped_bytes += bytes.saturating_sub(made + self.gathered()) as u64;
        }
        applied.and_then(|()| self.make_changes(false))
    }

    /// Reports of handlers, including the number of records that each refused.
    pub(crate) fn reports(&self) -> Vec<Report> {
        self.links.iter().flat_map(Link::reports).collect()
    }

    /// Appends the outcome of a run to `out`, including the records before an error.
    pub(crate) fn apply(
        &mut self,
        run: Run<impl Into<Memory>>,
        out: &mut Vec<Run>,
    ) -> Result<(), ChainError> {
        let Chain { links, taken, made, .. } = self;
        let mut result = Ok(());
        made.push(run.map(Into::into));
        for link in links {
            mem::swap(taken, made);
            let applied = taken.drain(..).try_for_each(|run| link.apply(run, made));
            result = applied.and(result);
        }
        out.extend(made.drain(..).map(|run| run.map(Memory::freeze)));
        self.has_failed |= result.is_err();
        result
    }

    pub(crate) fn end(&mut self) -> Result<(), ChainError> {
        for link in self.links.iter_mut().filter(|link| !link.force.is_suspended) {
            let ended = match &mut link.handler {
                Handler::Read(handler) => handler.end(),
                Handler::Peek(handler) => handler.end(),
                Handler::Select(handler) => handler.end(),
                Handler::Modify(handler) => handler.end(),
                Handler::Rewrite(_) => Ok(()),
            };
            ended.map_err(|error| ChainError { handler: link.handler.name(), error })?;
        }
        Ok(())
    }
}

impl Link {
    fn new(id: HandlerId, handler: Handler, drops_refused: bool) -> Link {
        Link {
            id,
            handler,
            awaits_record: false,
            force: Force::default(),
            gate: Gate { drops_refused, ..Gate::default() },
            gathered: BytesMut::new(),
            slices: Slices::default(),
            blocks: Blocks::new(BLOCK),
            long_blocks: Blocks::new(BLOCK),
            parts: Vec::new(),
            passing: Passing::default(),
        }
    }

    /// Returns an error if the handler's state exceeds its declared limit.
    fn check_state(&self) -> Result<(), HandlerError> {
        let (bytes, limit) = (self.handler.state_bytes(), self.handler.state_limit());
        if bytes <= limit {
            return Ok(());
        }
        Err(HandlerError::Failed(format!("its state takes {bytes} bytes: at most {limit} are declared")))
    }

    fn apply(&mut self, run: Run<Memory>, out: &mut Vec<Run<Memory>>) -> Result<(), ChainError> {
        self.awaits_record &= !run.begins;
        if self.awaits_record || self.force.is_suspended {
            out.push(run);
            return Ok(());
        }
        let done = self.gather(run).and_then(|whole| match whole {
            Some(Whole::Run(run)) => self.apply_run(run, out),
            Some(Whole::Slices(slices)) => self.apply_slices(slices, out),
            None => Ok(()),
        });
        let handler = self.handler.name();
        done.and_then(|()| self.check_state()).map_err(|error| ChainError { handler, error })
    }

    fn apply_run(&mut self, run: Run<Memory>, out: &mut Vec<Run<Memory>>) -> Result<(), HandlerError> {
        let Link { handler, gate, gathered, blocks, long_blocks, parts, passing, .. } = self;
        match handler {
            Handler::Read(handler) => read(handler.as_mut(), gate, passing, run, out),
            Handler::Peek(handler) => peek_heads(handler.as_mut(), gate, passing, gathered, run, out),
            Handler::Select(handler) => select(handler.as_mut(), gate, parts, run, out),
            Handler::Modify(handler) => modify(handler.as_mut(), gate, passing, blocks, run, out),
            Handler::Rewrite(handler) => {
                rewrite(handler.as_mut(), gate, run.pieces(), Written::new(blocks, long_blocks, out))
            }
        }
    }

    fn reports(&self) -> Vec<Report> {
        let name = self.handler.name();
        let mut reports = self.handler.report();
        match (self.gate.refused, reports.iter_mut().find(|(what, _)| *what == "refused")) {
            (0, _) => {}
            (refused, Some((_, by_itself))) => *by_itself += refused,
            (refused, None) => reports.push(("refused", refused)),
        }
        reports.into_iter().map(|(what, value)| (name, what, value)).collect()
    }
}

/// Appends the records that pass to `out`, as few runs as possible; records before an error are included.
fn read(
    handler: &mut dyn Read,
    gate: &mut Gate,
    passing: &mut Passing,
    run: Run<Memory>,
    out: &mut Vec<Run<Memory>>,
) -> Result<(), HandlerError> {
    let judged = (0..run.records()).try_for_each(|index| {
        let (range, piece) = run.piece(index);
        passing.judge(gate, range, piece, || handler.read(piece))
    });
    passing.put(run, out);
    judged
}

/// Same as [`read`], for a handler that changes the bytes.
fn modify(
    handler: &mut dyn Modify,
    gate: &mut Gate,
    passing: &mut Passing,
    blocks: &mut Blocks,
    run: Run<Memory>,
    out: &mut Vec<Run<Memory>>,
) -> Result<(), HandlerError> {
    let mut run = run.map(|bytes| bytes.into_own(blocks));
    let judged = (0..run.records()).try_for_each(|index| {
        let (range, Piece { begins, ends, .. }) = run.piece(index);
        let bytes = &mut run.bytes[range.clone()];
        passing.judge(gate, range, Piece::part(&[], begins, ends), || {
            handler.modify(PieceMut { bytes, begins, ends })
        })
    });
    passing.put(run.map(Memory::Own), out);
    judged
}

/// Appends kept and added parts to `out`, including the records before an error: records that are kept whole
/// as few runs as possible, others part by part.
fn select(
    handler: &mut dyn Select,
    gate: &mut Gate,
    parts: &mut Vec<FramePart>,
    run: Run<Memory>,
    out: &mut Vec<Run<Memory>>,
) -> Result<(), HandlerError> {
    let run = &run.map(Memory::freeze);
    let mut kept: Range<usize> = 0..0;
    for index in 0..run.records() {
        let (range, piece) = run.piece(index);
        let mut frame = Frame::new(piece.bytes.len(), parts, std::slice::from_ref(&run.bytes));
        let is_shown = gate.lets_in(piece.begins);
        let judged = if is_shown { gate.judge(piece, handler.select(piece, &mut frame)) } else { Ok(None) };
        if judged.is_err() {
            put(run, kept.clone(), out);
        }
        let selected = judged?;
        if let (Some(()), [FramePart::Kept(all)]) = (selected, &parts[..])
            && all.len() == piece.bytes.len()
            && !all.is_empty()
        {
            kept.end = range.end;
            continue;
        }
        put(run, kept, out);
        kept = range.end..range.end;
        if selected.is_some() {
            let take = |kept: Range<usize>, put: &mut dyn FnMut(Bytes)| {
                put(run.bytes.slice(range.start + kept.start..range.start + kept.end));
            };
            put_parts((piece.begins, piece.ends), parts, take, out);
        }
    }
    put(run, kept, out);
    Ok(())
}

fn put(run: &Run, range: Range<usize>, out: &mut Vec<Run<Memory>>) {
    if !range.is_empty() {
        out.push(run.part(range).map(Memory::Shared));
    }
}

/// Appends the parts of a record, or of a piece of a record with its `begins` and `ends`. `take` returns the
/// bytes of a kept range. A record in pieces needs a beginning and an end even if nothing of it is kept.
fn put_parts(
    (begins, ends): (bool, bool),
    parts: &mut Vec<FramePart>,
    take: impl Fn(Range<usize>, &mut dyn FnMut(Bytes)),
    out: &mut Vec<Run<Memory>>,
) {
    if parts.len() > 1 {
        parts.retain(|part| !part.is_empty());
    }
    let first = out.len();
    let mut put = |bytes| out.push(Run::single(Memory::Shared(bytes), false, false));
    if parts.is_empty() && begins != ends {
        put(Bytes::new());
    }
    for part in parts.drain(..) {
        match part {
            FramePart::Kept(range) => take(range, &mut put),
            FramePart::Made(bytes) => put(bytes),
        }
    }
    if let [first, ..] = &mut out[first..] {
        first.begins = begins;
    }
    if let [.., last] = &mut out[first..] {
        last.ends = ends;
    }
}

#[cfg(test)]
mod tests;
