//! Conditions for the zero-copy route on the side of inputs.

use super::{Input, Intake, Order};
use crate::chain::PeekScope;
use crate::object::Kind;

/// Cached answer to whether all inputs may move without copies, so that thousands of inputs are not checked
/// for each record. If all inputs could, they are not checked again before a change; if one could not, no
/// other input is checked as long as that one still cannot.
#[derive(Debug, Default)]
pub(super) struct ZeroCopyCheck {
    /// All inputs could, and no input has changed since.
    all_can: bool,
    /// Place of an input that could not, or has changed since.
    obstacle: usize,
    /// All inputs could except for this one, and no other input has changed since.
    others_can: bool,
    /// Number of inputs that were checked.
    #[cfg(test)]
    looked_at: usize,
}

impl ZeroCopyCheck {
    /// Notes a change of any input, or of their number.
    pub(super) fn note_change(&mut self) {
        (self.all_can, self.others_can) = (false, false);
    }

    /// Notes a change of the input at `place` only.
    pub(super) fn note_change_of(&mut self, place: usize) {
        if self.all_can {
            (self.all_can, self.others_can, self.obstacle) = (false, true, place);
        }
        self.others_can &= place == self.obstacle;
    }
}

/// Current records on the zero-copy route, for the parts after the intake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoingBy {
    /// The only input is a byte stream without framing. Beside other inputs such a stream is copied.
    pub(crate) is_unframed: bool,
    /// Outputs have the beginning of a record but not its end.
    pub(crate) is_within: bool,
}

impl Intake {
    /// State of the current records, if bytes of all inputs may move without copies.
    pub(crate) fn zero_copy(&mut self) -> Option<GoingBy> {
        let has_order = matches!(self.order, Order::Turns(_) | Order::Arrival(_));
        if !has_order || self.inputs.is_empty() || !self.all_can_zero_copy() {
            return None;
        }
        let is_within = self.going_by().is_some();
        debug_assert_eq!(is_within, self.is_within_record());
        let is_unframed = matches!(&self.inputs[..], [alone] if alone.is_unframed());
        Some(GoingBy { is_unframed, is_within })
    }

    #[cfg(test)]
    pub(crate) fn inputs_looked_at(&self) -> usize {
        self.zero_copy.looked_at
    }

    fn all_can_zero_copy(&mut self) -> bool {
        let is_alone = self.inputs.len() == 1;
        let scope = self.peek_scope;
        let cannot = |input: &Input| !input.can_zero_copy(is_alone, scope);
        let check = &mut self.zero_copy;
        if !check.all_can {
            if self.inputs.get(check.obstacle).is_some_and(cannot) {
                return false;
            }
            let unchecked: &[Input] = if check.others_can { &[] } else { &self.inputs[..] };
            let place = unchecked.iter().position(cannot);
            #[cfg(test)]
            {
                check.looked_at += unchecked.len();
            }
            (check.all_can, check.others_can) = (place.is_none(), false);
            check.obstacle = place.unwrap_or(0);
        }
        debug_assert_eq!(check.all_can, !self.inputs.iter().any(cannot), "an input changed unnoticed");
        check.all_can
    }

    /// Counts bytes of an input that moved without copies. Returns whether a record ended with them; None if
    /// the input has no records.
    pub(crate) fn note_passed(&mut self, place: usize, bytes: usize) -> Option<bool> {
        let input = &mut self.inputs[place];
        input.bytes += bytes as u64;
        self.counts.bytes += bytes as u64;
        self.counts.zero_copy_bytes += bytes as u64;
        self.note_seen_moved(place, bytes);
        self.pass(place, bytes)
    }

    /// Counts the records that undivided bytes begin and end. Returns whether a record ended; None if the
    /// input has no records.
    pub(super) fn pass(&mut self, place: usize, bytes: usize) -> Option<bool> {
        let input = &mut self.inputs[place];
        let passed = input.splitter.pass(bytes)?;
        input.records += u64::from(passed.begins);
        self.counts.records += u64::from(passed.begins);
        self.took(place, passed.ends);
        Some(passed.ends)
    }

    /// Ends the zero-copy route for the input at `place`: its bytes are copied from now on, or it has ended.
    pub(crate) fn note_zero_copy_over(&mut self, place: usize, has_ended: bool) {
        if has_ended {
            self.inputs[place].supply = super::Supply::Ended;
            self.wake(place);
        }
        self.zero_copy.note_change_of(place);
    }
}

impl Input {
    /// Returns whether bytes of the input may move without copies. Bytes without framing follow the bytes
    /// before them, so there must be no other input.
    fn can_zero_copy(&self, is_alone: bool, scope: PeekScope) -> bool {
        let movable = match &self.object.kind {
            Kind::Stream(connection) => !connection.has_urgent,
            Kind::Mapping(_) | Kind::Parts(_) => true,
            Kind::File(file) => !file.shares_place,
            _ => false,
        };
        let nothing_kept = self.buffer.is_empty() && self.ready.is_empty() && self.object.unread.is_empty();
        let goes_by = self.splitter.can_zero_copy() && (is_alone || !self.is_unframed());
        let peeks = scope != PeekScope::Nothing || self.splitter.is_measured();
        let may_peek = !peeks || self.object.can_peek(scope) && self.must_copy.is_none();
        movable && may_peek && nothing_kept && goes_by && self.is_open() && self.detach.is_none()
    }
}
