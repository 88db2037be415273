//! Handlers one behind the other, and what they make of a run.

mod gate;
mod rewrite;

use std::mem;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::handler::{Frame, FramePart, Handler, HandlerError, Reach, Read, Select, Verdict};
use crate::record::{Piece, Run};
use gate::Gate;
use rewrite::rewrite;

/// A handler's name, and the name and value of what it reports.
pub(crate) type Report = (&'static str, &'static str, u64);

/// Handlers in the order in which they see the records.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    links: Vec<Link>,
    /// Output of a link while it works on a run; empty otherwise.
    made: Vec<Run>,
    /// A handler failed: nothing is sent behind the record at which it did.
    pub(crate) has_failed: bool,
    /// Bytes that came after a handler had failed, or that it did not pass on when it failed.
    pub(crate) dropped_bytes: u64,
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
    handler: Handler,
    /// The handler was added within a record, of which it sees nothing.
    awaits_record: bool,
    gate: Gate,
    /// Pieces of a record for a handler that takes whole ones.
    gathered: BytesMut,
    /// Buffer of a rewriting handler.
    block: BytesMut,
    parts: Vec<FramePart>,
}

impl Chain {
    pub(crate) fn push(&mut self, handler: Handler) {
        self.links.push(Link {
            handler,
            awaits_record: false,
            gate: Gate::default(),
            gathered: BytesMut::new(),
            block: BytesMut::new(),
            parts: Vec::new(),
        });
    }

    /// Adds a handler that sees nothing before the next record begins.
    pub(crate) fn push_for_next(&mut self, handler: Handler) {
        self.push(handler);
        self.links.iter_mut().next_back().into_iter().for_each(|link| link.awaits_record = true);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Bytes of pieces that are gathered for handlers that take whole records.
    pub(crate) fn gathered(&self) -> usize {
        self.links.iter().map(|link| link.gathered.len()).sum()
    }

    /// Drops gathered bytes; returns how many.
    pub(crate) fn drop_gathered(&mut self) -> usize {
        let gathered = self.gathered();
        self.links.iter_mut().for_each(|link| link.gathered.clear());
        gathered
    }

    /// From now on, records that a handler refuses are dropped and counted.
    pub(crate) fn drop_refused(&mut self) {
        self.links.iter_mut().for_each(|link| link.gate.drops_refused = true);
    }

    pub(crate) fn handlers(&self) -> impl Iterator<Item = &Handler> {
        self.links.iter().map(|link| &link.handler)
    }

    /// Reason of the first refusal, once.
    pub(crate) fn take_refusal(&mut self) -> Option<ChainError> {
        self.links.iter_mut().find_map(|link| {
            link.gate.first.take().map(|error| ChainError { handler: link.handler.name(), error })
        })
    }

    /// As [`Chain::apply`], and counts what is dropped because a handler failed, now or before: also what was
    /// gathered for it.
    pub(crate) fn handle(&mut self, run: Run, out: &mut Vec<Run>) -> Result<(), ChainError> {
        if self.has_failed {
            self.dropped_bytes += run.bytes.len() as u64;
            return Ok(());
        }
        let (first, bytes) = (out.len(), self.gathered() + run.bytes.len());
        let applied = self.apply(run, out);
        if applied.is_err() {
            let made: usize = out[first..].iter().map(|run| run.bytes.len()).sum();
            self.dropped_bytes += bytes.saturating_sub(made + self.gathered()) as u64;
        }
        applied
    }

    /// Reports of handlers, with the number of records that each refused.
    pub(crate) fn reports(&self) -> Vec<Report> {
        self.links.iter().flat_map(Link::reports).collect()
    }

    /// Appends the outcome of a run to `out`, also that of records before an error.
    pub(crate) fn apply(&mut self, run: Run, out: &mut Vec<Run>) -> Result<(), ChainError> {
        let first = out.len();
        let mut result = Ok(());
        out.push(run);
        for link in &mut self.links {
            let mut made = mem::take(&mut self.made);
            let applied = out.drain(first..).try_for_each(|run| link.apply(run, &mut made));
            result = applied.and(result);
            out.append(&mut made);
            self.made = made;
        }
        self.has_failed |= result.is_err();
        result
    }

    pub(crate) fn end(&mut self) -> Result<(), ChainError> {
        for link in &mut self.links {
            let ended = match &mut link.handler {
                Handler::Read(handler) => handler.end(),
                Handler::Select(handler) => handler.end(),
                Handler::Rewrite(_) => Ok(()),
            };
            ended.map_err(|error| ChainError { handler: link.handler.name(), error })?;
        }
        Ok(())
    }
}

impl Link {
    fn apply(&mut self, run: Run, out: &mut Vec<Run>) -> Result<(), ChainError> {
        self.awaits_record &= !run.begins;
        if self.awaits_record {
            out.push(run);
            return Ok(());
        }
        let name = self.handler.name();
        let Some(run) = self.gather(run).map_err(|error| ChainError { handler: name, error })? else {
            return Ok(());
        };
        let done = match &mut self.handler {
            Handler::Read(handler) => read(handler.as_mut(), &mut self.gate, &run, out),
            Handler::Select(handler) => select(handler.as_mut(), &mut self.gate, &mut self.parts, &run, out),
            Handler::Rewrite(handler) => {
                rewrite(handler.as_mut(), &mut self.gate, &mut self.block, &run, out)
            }
        };
        done.map_err(|error| ChainError { handler: name, error })
    }

    /// Gathers whole records for a handler that takes such; None if the record has not ended.
    fn gather(&mut self, run: Run) -> Result<Option<Run>, HandlerError> {
        let Reach::Records { limit } = self.handler.reach() else { return Ok(Some(run)) };
        if !self.gate.lets_in(run.begins) {
            return Ok(None);
        }
        let longest = self.gathered.len() + run.record_bytes.min(run.bytes.len());
        if longest > limit {
            self.gathered.clear();
            return self.gate.refuse_long(&run, longest, limit);
        }
        if run.begins && run.ends {
            return Ok(Some(run));
        }
        self.gathered.extend_from_slice(&run.bytes);
        Ok(run.ends.then(|| Run::single(self.gathered.split().freeze(), true, true)))
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

/// Records that pass, as few runs as possible; of those before an error as well.
fn read(handler: &mut dyn Read, gate: &mut Gate, run: &Run, out: &mut Vec<Run>) -> Result<(), HandlerError> {
    let mut passing: Range<usize> = 0..0;
    for index in 0..run.records() {
        let (range, piece) = run.piece(index);
        if gate.lets_in(piece.begins) {
            let judged = gate.judge(piece, handler.read(piece));
            if judged.is_err() {
                put(run, passing.clone(), out);
            }
            if let Some(verdict) = judged? {
                gate.is_dropping = verdict == Verdict::Drop && piece.begins;
            }
        }
        if !gate.is_dropping {
            passing.end = range.end;
            continue;
        }
        put(run, passing, out);
        passing = range.end..range.end;
    }
    // An empty record is in no range of bytes.
    if run.bytes.is_empty() && !gate.is_dropping {
        out.push(run.clone());
    }
    put(run, passing, out);
    Ok(())
}

/// Parts that are kept and added, also before an error: records that are kept whole as few runs as possible,
/// others part by part.
fn select(
    handler: &mut dyn Select,
    gate: &mut Gate,
    parts: &mut Vec<FramePart>,
    run: &Run,
    out: &mut Vec<Run>,
) -> Result<(), HandlerError> {
    let mut kept: Range<usize> = 0..0;
    for index in 0..run.records() {
        let (range, piece) = run.piece(index);
        let mut frame = Frame::new(piece.bytes.len(), parts);
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
            put_parts(run, range.start, piece, parts, out);
        }
    }
    put(run, kept, out);
    Ok(())
}

fn put(run: &Run, range: Range<usize>, out: &mut Vec<Run>) {
    if !range.is_empty() {
        out.push(run.part(range));
    }
}

/// The parts of one record, or of a piece of one, that begins at `at`. A record in pieces needs a beginning
/// and an end even if nothing of it is kept.
fn put_parts(run: &Run, at: usize, piece: Piece<'_>, parts: &mut Vec<FramePart>, out: &mut Vec<Run>) {
    if parts.len() > 1 {
        parts.retain(|part| !part.is_empty());
    }
    let count = parts.len();
    for (index, part) in parts.drain(..).enumerate() {
        let bytes = match part {
            FramePart::Kept(range) => run.bytes.slice(at + range.start..at + range.end),
            FramePart::Made(bytes) => bytes,
        };
        out.push(Run::single(bytes, piece.begins && index == 0, piece.ends && index + 1 == count));
    }
    if count == 0 && piece.begins != piece.ends {
        out.push(Run::single(Bytes::new(), piece.begins, piece.ends));
    }
}

#[cfg(test)]
mod tests;
