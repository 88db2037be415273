//! Records of a run that pass a handler.

use std::ops::Range;

use super::Memory;
use super::gate::Gate;
use crate::handler::{HandlerError, Verdict};
use crate::record::{Piece, Run};

/// Ranges of the records of a run that pass a handler, in order, with adjacent ranges merged; empty between
/// two runs.
#[derive(Debug, Default)]
pub(super) struct Passing(Vec<Range<usize>>);

impl Passing {
    /// Shows a piece to the handler by `ask`, unless its record was dropped, and notes the verdict. After an
    /// error no record follows.
    pub(super) fn judge(
        &mut self,
        gate: &mut Gate,
        range: Range<usize>,
        piece: Piece<'_>,
        ask: impl FnOnce() -> Result<Verdict, HandlerError>,
    ) -> Result<(), HandlerError> {
        if gate.lets_in(piece.begins)
            && let Some(verdict) = gate.judge(piece, ask())?
        {
            gate.is_dropping = verdict == Verdict::Drop && piece.begins;
        }
        match self.0.last_mut() {
            _ if gate.is_dropping => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.0.push(range),
        }
        Ok(())
    }

    /// Appends the records that pass to `out`.
    pub(super) fn put(&mut self, mut run: Run<Memory>, out: &mut Vec<Run<Memory>>) {
        let mut taken = 0;
        for range in self.0.drain(..) {
            if range.start > taken {
                run.take_bytes(range.start - taken);
            }
            out.push(run.take_bytes(range.len()));
            taken = range.end;
        }
    }
}
