//! Gate of a handler: the records that it is shown, and those that it refuses.

use super::Memory;
use crate::handler::HandlerError;
use crate::record::{Piece, Run};

/// Gate in front of one handler.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Records that the handler refuses are dropped and counted, not errors.
    pub(super) drops_refused: bool,
    /// The record that goes by was dropped: its other pieces are not shown.
    pub(super) is_dropping: bool,
    /// The beginning of the record is gathered for a handler that sees that.
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

    /// Judges the handler's answer for a piece; None if the record goes no further.
    pub(super) fn judge<T>(
        &mut self,
        piece: Piece<'_>,
        said: Result<T, HandlerError>,
    ) -> Result<Option<T>, HandlerError> {
        match said {
            Err(error @ HandlerError::Refused(_)) => {
                // A part of the record has gone already.
                self.refuse(1, error, self.drops_refused && piece.begins)?;
                self.is_dropping = true;
                Ok(None)
            }
            said => said.map(Some),
        }
    }

    /// Refuses the records of a run that are longer than `limit`: all but perhaps the last. Returns that one.
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

    /// Counts refused records and keeps the first reason; an error if the stream cannot go on without them.
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
