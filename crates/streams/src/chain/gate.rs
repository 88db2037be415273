//! Gate of a handler: decides which pieces the handler sees, and handles its refusals.

use super::Memory;
use crate::handler::HandlerError;
use crate::record::{Piece, Run};

/// Gate in front of one handler.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Refused records are dropped and counted, and are not errors.
    pub(super) drops_refused: bool,
    /// The current record was dropped: its other pieces are not shown.
    pub(super) is_dropping: bool,
    /// The beginning of the record is being gathered for a handler that peeks.
    pub(super) is_within_head: bool,
    pub(super) refused: u64,
    /// Reason of the first refusal, until it is taken.
    pub(super) first: Option<HandlerError>,
}

impl Gate {
    /// Returns whether the handler is shown this piece.
    pub(super) fn lets_in(&mut self, begins: bool) -> bool {
        self.is_dropping &= !begins;
        !self.is_dropping
    }

    /// Evaluates the handler's result for a piece; None if the record is dropped.
    pub(super) fn judge<T>(
        &mut self,
        piece: Piece<'_>,
        said: Result<T, HandlerError>,
    ) -> Result<Option<T>, HandlerError> {
        match said {
            Err(error @ HandlerError::Refused(_)) => {
                // Later pieces cannot be refused: a part of the record has left already.
                self.refuse(1, error, self.drops_refused && piece.begins)?;
                self.is_dropping = true;
                Ok(None)
            }
            said => said.map(Some),
        }
    }

    /// Refuses the records of a run that are longer than `limit`: all except possibly the last, shorter one,
    /// which is returned.
    pub(super) fn refuse_long(
        &mut self,
        mut run: Run<Memory>,
        longest: usize,
        limit: usize,
    ) -> Result<Option<Run<Memory>>, HandlerError> {
        let error = format!("record of {longest} bytes or more: at most {limit} are allowed");
        let error = HandlerError::Refused(error);
        let (last, piece) = run.piece(run.records() - 1);
        let fits = piece.begins && piece.ends && last.len() <= limit;
        self.refuse((run.records() - usize::from(fits)) as u64, error, self.drops_refused)?;
        self.is_dropping = !run.ends;
        run.take_bytes(last.start);
        Ok(fits.then_some(run))
    }

    /// Counts refused records and keeps the first reason. Returns an error if the stream cannot continue
    /// without them.
    fn refuse(&mut self, records: u64, error: HandlerError, can_go_on: bool) -> Result<(), HandlerError> {
        let is_first = self.refused == 0;
        self.refused += records;
        if !can_go_on {
            return Err(error);
        }
        if is_first {
            self.first = Some(error);
        }
        Ok(())
    }
}
