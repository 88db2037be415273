//! Gathers whole records for handlers that need them.

use super::rewrite::Written;
use super::{Link, Memory, slices};
use crate::framing::LONGEST;
use crate::handler::{Handler, HandlerError, Reach};
use crate::record::Run;

/// Input of a handler.
pub(super) enum Whole {
    /// Whole records, or pieces for a handler that takes pieces.
    Run(Run<Memory>),
    /// One whole record, in slices.
    Slices(Vec<Memory>),
}

impl Whole {
    /// A record of these slices.
    fn of(mut slices: Vec<Memory>) -> Whole {
        match slices.len() {
            0 | 1 => Whole::Run(Run::single(slices.pop().unwrap_or_default(), true, true)),
            _ => Whole::Slices(slices),
        }
    }
}

impl Link {
    /// Gathers whole records for a handler that takes whole records; None if the record has not ended.
    pub(super) fn gather(&mut self, run: Run<Memory>) -> Result<Option<Whole>, HandlerError> {
        let (limit, in_slices) = match self.handler.reach() {
            Reach::Pieces => return Ok(Some(Whole::Run(run))),
            Reach::Records { limit } => (limit, false),
            Reach::Slices { limit } => {
                (limit.min(LONGEST), !matches!(self.handler, Handler::Peek(_) | Handler::Modify(_)))
            }
        };
        if !self.gate.lets_in(run.begins) {
            return Ok(None);
        }
        let longest = self.gathered_bytes() + run.record_bytes.min(run.bytes.len());
        if longest > limit {
            self.drop_gathered();
            return self.gate.refuse_long(run, longest, limit).map(|fits| fits.map(Whole::Run));
        }
        if run.begins && run.ends {
            return Ok(Some(Whole::Run(run)));
        }
        let ends = run.ends;
        if in_slices {
            self.slices.add(run.bytes);
            return Ok(ends.then(|| Whole::of(self.slices.take())));
        }
        self.gathered.extend_from_slice(&run.bytes);
        Ok(ends.then(|| Whole::Run(Run::single(Memory::Own(self.gathered.split()), true, true))))
    }

    pub(super) fn gathered_bytes(&self) -> usize {
        self.gathered.len() + self.slices.length()
    }

    pub(super) fn drop_gathered(&mut self) {
        self.gathered.clear();
        self.slices.clear();
    }

    pub(super) fn apply_slices(
        &mut self,
        record: Vec<Memory>,
        out: &mut Vec<Run<Memory>>,
    ) -> Result<(), HandlerError> {
        let Link { handler, gate, blocks, long_blocks, parts, .. } = self;
        match handler {
            Handler::Read(handler) => slices::read(handler.as_mut(), gate, record, out),
            Handler::Select(handler) => slices::select(handler.as_mut(), gate, parts, record, out),
            Handler::Rewrite(handler) => {
                slices::rewrite(handler.as_mut(), gate, &record, Written::new(blocks, long_blocks, out))
            }
            Handler::Peek(_) | Handler::Modify(_) => Ok(()), // their records are gathered
        }
    }
}
