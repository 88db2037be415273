//! Spread, the third part of a stream: chooses the outputs of the next bytes by the pattern.
//!
//! [`Spread::recipients`] returns the outputs whose turn it is, and [`Spread::advance`] ends their turn, for
//! the copying route ([`Spread::distribute`]) and for the zero-copy route.

mod custom;
mod pattern;
mod pushing;

use std::collections::VecDeque;
use std::ops::Range;

use crate::error::StreamError;
use crate::framing::LARGE;
use crate::intake::GoingBy;
use crate::outputs::{Outputs, Removed};
use crate::port::Port;
use crate::record::Run;
use crate::secret::{LONGEST_SHARED, SecretSplitter};
use crate::shared::Shared;
use crate::turns::Turns;
use custom::Custom;
pub use pattern::OutputPattern;
pub(crate) use pattern::Pattern;
pub use pushing::{OutputChoice, OutputState, Push, PushingOrder};

pub(crate) struct Spread {
    state: State,
    /// Runs that were handled and wait for room.
    pub(crate) pending: VecDeque<Run>,
    /// The rest of a record is dropped, because the output that had its beginning was removed.
    is_skipping: bool,
    /// A record could not be shared, or a custom pattern failed: no record follows.
    has_failed: bool,
    /// Error of a custom pattern on the zero-copy route, until it is reported.
    failure: Option<StreamError>,
    /// Bytes that were dropped because the output that had the beginning of their record was removed, because
    /// a record could not be shared, or by a custom pattern.
    pub(crate) dropped_bytes: u64,
}

/// State of the pattern.
enum State {
    Turns(Turns),
    Bytes {
        turns: Turns,
        unit: usize,
        left: usize,
    },
    Mirror,
    /// The output that got the beginning of the current record.
    Capacity {
        chosen: Option<Port>,
    },
    Shares(SecretSplitter),
    Custom(Custom),
}

/// The outputs that get the next bytes.
#[derive(Clone, Debug)]
pub(crate) struct Recipients {
    /// Places of the outputs.
    pub(crate) outputs: Range<usize>,
    /// Most bytes for these outputs.
    pub(crate) bytes: usize,
}

impl From<OutputPattern> for State {
    fn from(pattern: OutputPattern) -> State {
        match pattern {
            OutputPattern::Stripe => State::Turns(Turns::round_robin()),
            OutputPattern::StripeBytes(unit) => {
                State::Bytes { turns: Turns::round_robin(), unit: unit.max(1), left: unit.max(1) }
            }
            OutputPattern::Random { seed } => State::Turns(Turns::random(seed)),
            OutputPattern::Mirror => State::Mirror,
            OutputPattern::Capacity => State::Capacity { chosen: None },
            OutputPattern::Shares { threshold } => State::Shares(SecretSplitter::new(threshold)),
        }
    }
}

impl From<Pattern> for State {
    fn from(pattern: Pattern) -> State {
        match pattern {
            Pattern::Shipped(pattern) => pattern.into(),
            Pattern::Custom(order) => State::Custom(Custom::new(order)),
        }
    }
}

impl Spread {
    pub(crate) fn new(pattern: impl Into<Pattern>) -> Spread {
        Spread {
            state: pattern.into().into(),
            pending: VecDeque::new(),
            is_skipping: false,
            has_failed: false,
            failure: None,
            dropped_bytes: 0,
        }
    }

    pub(crate) fn is_mirror(&self) -> bool {
        matches!(self.state, State::Mirror)
    }

    /// Returns whether outputs get parts of stripes, which form records of their own.
    pub(crate) fn divides_bytes(&self) -> bool {
        matches!(self.state, State::Bytes { .. })
    }

    pub(crate) fn makes_shares(&self) -> bool {
        matches!(self.state, State::Shares(_))
    }

    /// Number of outputs that get each byte.
    pub(crate) fn copies(&self, outputs: &Outputs) -> usize {
        if self.is_mirror() { outputs.len() } else { 1 }
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.iter().map(|run| run.bytes.len()).sum()
    }

    /// The outputs whose turn it is; None if there are none, or one of several has to be waited for. The
    /// answer stays the same until [`Spread::advance`] or until outputs are added or removed.
    pub(crate) fn recipients(&mut self, outputs: &Outputs, now_us: u64) -> Option<Recipients> {
        let count = outputs.len();
        if count == 0 {
            return None;
        }
        let (outputs, bytes) = match &mut self.state {
            State::Mirror | State::Shares(_) => (0..count, usize::MAX),
            State::Turns(turns) => (one(turns.current(count)), usize::MAX),
            State::Bytes { turns, left, .. } => (one(turns.current(count)), *left),
            State::Capacity { chosen: Some(port) } => (one(outputs.place_of(*port)?), usize::MAX),
            State::Capacity { chosen: None } => (one(outputs.least_loaded(now_us)?), usize::MAX),
            State::Custom(_) => (self.custom_recipients(outputs, now_us)?, usize::MAX),
        };
        Some(Recipients { outputs, bytes })
    }

    /// Ends the turn of the recipients after these bytes. `record_ends` is true if a record of the input ends
    /// with them, and None if the input has no records. Returns the same for the outputs.
    pub(crate) fn advance(
        &mut self,
        recipients: &Recipients,
        bytes: usize,
        record_ends: Option<bool>,
        outputs: &Outputs,
    ) -> Option<bool> {
        match (&mut self.state, record_ends) {
            (State::Bytes { turns, unit, left }, _) => {
                *left -= bytes;
                let part_ends = *left == 0;
                if part_ends {
                    turns.taken();
                    *left = *unit;
                }
                return Some(part_ends);
            }
            (State::Turns(turns), Some(true)) => turns.taken(),
            (State::Custom(custom), ends) => custom.advance(ends),
            (State::Capacity { chosen }, Some(ends)) => {
                *chosen = (!ends).then(|| outputs.current[recipients.outputs.start].port);
            }
            _ => {}
        }
        record_ends
    }

    /// Handles outputs removed since the last call.
    pub(crate) fn follow(&mut self, outputs: &mut Outputs) {
        for removed in outputs.take_removed() {
            self.note_removed(&removed);
        }
    }

    /// Handles a removed output. If only this output had the beginning of the current record, the rest of the
    /// record is of no use to another output.
    fn note_removed(&mut self, removed: &Removed) {
        let Removed { place, port, within_record } = *removed;
        let mut has_others = matches!(self.state, State::Mirror | State::Bytes { .. });
        match &mut self.state {
            State::Turns(turns) => turns.removed(place),
            State::Bytes { turns, unit, left } => {
                if turns.is_current(place) {
                    *left = *unit;
                }
                turns.removed(place);
            }
            State::Capacity { chosen } => *chosen = chosen.filter(|chosen| *chosen != port),
            State::Custom(custom) => has_others = !custom.removed(port),
            State::Mirror | State::Shares(_) => {}
        }
        self.is_skipping |= within_record && !has_others;
    }

    /// Gives pending runs to outputs as long as they have room. Returns whether anything was done.
    pub(crate) fn distribute(&mut self, outputs: &mut Outputs, shared: &mut Shared, now_us: u64) -> bool {
        let mut progressed = false;
        while let Some(run) = self.pending.pop_front() {
            let before = run.bytes.len();
            if let Some(rest) = self.distribute_run(run, outputs, shared, now_us) {
                progressed |= rest.bytes.len() < before;
                self.pending.push_front(rest);
                break;
            }
            progressed = true;
        }
        progressed
    }

    /// Gives a run to outputs; returns the rest, for which there was no room.
    fn distribute_run(
        &mut self,
        mut run: Run,
        outputs: &mut Outputs,
        shared: &mut Shared,
        now_us: u64,
    ) -> Option<Run> {
        self.follow(outputs);
        self.is_skipping &= !run.begins;
        if self.is_skipping {
            self.dropped_bytes += run.bytes.len() as u64;
            return None;
        }
        if let State::Custom(_) = self.state {
            return self.distribute_by_choice(run, outputs, shared, now_us);
        }
        loop {
            self.follow(outputs);
            let recipients =
                self.recipients(outputs, now_us).filter(|recipients| !outputs.block(&recipients.outputs));
            let Some(recipients) = recipients else { return Some(run) };
            if self.divides_bytes() && run.bytes.is_empty() {
                return None; // ends of records have no meaning here
            }
            let part = self.take_part(&mut run, &recipients, outputs);
            match &mut self.state {
                State::Mirror => self.mirror(&part, outputs, shared),
                State::Shares(_) => self.share(&part, outputs, shared),
                _ => outputs.offer(recipients.outputs.start, part, shared),
            }
            if run.is_used_up() {
                return None;
            }
        }
    }

    /// Takes the part of a run for the recipients, and ends their turn.
    fn take_part(&mut self, run: &mut Run, recipients: &Recipients, outputs: &Outputs) -> Run {
        if let State::Bytes { unit, .. } = &self.state {
            let begins = recipients.bytes == *unit;
            let bytes = run.bytes.split_to(recipients.bytes.min(run.bytes.len()));
            let ends = self.advance(recipients, bytes.len(), None, outputs) == Some(true);
            return Run::single(bytes, begins, ends);
        }
        let one_by_one = match self.state {
            State::Turns(_) => outputs.len() > 1,
            State::Capacity { .. } => true,
            _ => false,
        };
        let part = run.take_records(if one_by_one { 1 } else { usize::MAX });
        self.advance(recipients, part.bytes.len(), Some(part.ends), outputs);
        part
    }

    fn mirror(&mut self, run: &Run, outputs: &mut Outputs, shared: &mut Shared) {
        if !run.begins && !outputs.current.iter().any(|output| output.within_record) {
            self.dropped_bytes += run.bytes.len() as u64; // all outputs with the beginning were removed
        }
        for place in (0..outputs.len()).rev() {
            // An output that was added within a record waits for the next record.
            if run.begins || outputs.current[place].within_record {
                outputs.offer(place, run.clone(), shared);
            }
        }
    }

    fn share(&mut self, run: &Run, outputs: &mut Outputs, shared: &mut Shared) {
        for piece in run.pieces() {
            // An output that took nothing may have been disconnected after the last record.
            let (count, bytes) = (outputs.len(), piece.bytes.len());
            let State::Shares(splitter) = &mut self.state else { return };
            let threshold = splitter.threshold;
            let error = if count < usize::from(threshold) {
                Some(StreamError::TooFewOutputs { outputs: count, threshold })
            } else if bytes > LONGEST_SHARED {
                Some(StreamError::TooLongToShare { bytes, most: LONGEST_SHARED })
            } else {
                None
            };
            self.has_failed |= error.is_some();
            error.into_iter().for_each(|error| shared.fail(error));
            if self.has_failed {
                self.dropped_bytes += bytes as u64;
                continue;
            }
            let shares = splitter.split(piece.bytes, count);
            for (place, share) in shares.into_iter().enumerate().rev() {
                outputs.offer(place, Run::single(share, true, true), shared);
            }
        }
    }

    /// Returns whether the pattern allows the zero-copy route.
    pub(crate) fn can_zero_copy(&mut self, outputs: &mut Outputs, going_by: GoingBy) -> bool {
        self.follow(outputs);
        let GoingBy { is_unframed, is_within } = going_by;
        let as_they_come = match &self.state {
            // An output that was added within a record must not get the rest of it.
            State::Mirror if !is_unframed => {
                outputs.current.iter().all(|output| output.within_record == is_within)
            }
            State::Mirror => true,
            State::Turns(_) | State::Capacity { .. } => !is_unframed || outputs.len() == 1,
            State::Bytes { unit, .. } => *unit >= LARGE,
            State::Custom(custom) => custom.can_zero_copy(outputs, going_by),
            State::Shares(_) => false,
        };
        as_they_come && !self.is_skipping && !self.has_failed
    }

    /// Returns whether bytes of a file may go straight to the output whose turn it is. By capacity, an output
    /// that takes nothing must not delay the others within a record.
    pub(crate) fn can_send_files(&self, outputs: &Outputs) -> bool {
        outputs.len() == 1 || !matches!(self.state, State::Capacity { .. } | State::Custom(_))
    }
}

fn one(place: usize) -> Range<usize> {
    place..place + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_stays_with_its_output_when_another_leaves() {
        let mut spread = Spread::new(OutputPattern::Capacity);
        spread.state = State::Capacity { chosen: Some(Port(7)) };
        let removed = |port| Removed { place: 0, port: Port(port), within_record: false };
        spread.note_removed(&removed(3));
        assert!(matches!(spread.state, State::Capacity { chosen: Some(Port(7)) }));
        spread.note_removed(&removed(7));
        assert!(matches!(spread.state, State::Capacity { chosen: None }));
    }
}
