//! What is claimed for bodies that are being written.

use std::collections::HashMap;

use crate::cache::cost::Cost;

/// What bodies that are being written will take and take already, by their number.
#[derive(Debug, Default)]
pub(super) struct Claims {
    each: HashMap<u64, Claim>,
    promised: Cost,
    taken: Cost,
}

#[derive(Debug)]
struct Claim {
    whole: Cost,
    body_bytes: u64,
    taken: Cost,
}

impl Claims {
    /// What all will take.
    pub(super) fn promised(&self) -> Cost {
        self.promised
    }

    /// What all take already.
    pub(super) fn taken(&self) -> Cost {
        self.taken
    }

    /// A new one: it will take `whole` with a body of so many bytes, and takes nothing yet.
    pub(super) fn promise(&mut self, number: u64, whole: Cost, body_bytes: u64) {
        self.promised = self.promised.with(whole);
        self.each.insert(number, Claim { whole, body_bytes, taken: Cost::default() });
    }

    /// Has one take room for so many bytes of its body, if `fits` says so of what all take then; answers
    /// that. None if there is no such body.
    pub(super) fn take(&mut self, number: u64, bytes: u64, fits: impl FnOnce(Cost) -> bool) -> Option<bool> {
        let claim = self.each.get_mut(&number)?;
        let wanted = claim.whole.with_less_body(claim.body_bytes, bytes);
        let all = self.taken.without(claim.taken).with(wanted);
        let is_taken = fits(all);
        if is_taken {
            (claim.taken, self.taken) = (wanted, all);
        }
        Some(is_taken)
    }

    /// One takes nothing any more.
    pub(super) fn end(&mut self, number: u64) {
        if let Some(claim) = self.each.remove(&number) {
            self.promised = self.promised.without(claim.whole);
            self.taken = self.taken.without(claim.taken);
        }
    }
}
