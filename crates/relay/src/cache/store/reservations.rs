//! Space reserved for bodies that are being written.

use std::collections::HashMap;

use crate::cache::cost::Cost;

/// Reservations by the number of the body.
#[derive(Debug, Default)]
pub(super) struct Reservations(HashMap<u64, Reservation>);

#[derive(Debug)]
struct Reservation {
    whole: Cost,
    body_bytes: u64,
    used: Cost,
}

impl Reservations {
    /// Sum of what all bodies will use.
    pub(super) fn reserved(&self) -> Cost {
        self.0.values().fold(Cost::default(), |sum, one| sum.with(one.whole))
    }

    /// Sum of what all bodies use already.
    pub(super) fn used(&self) -> Cost {
        self.0.values().fold(Cost::default(), |sum, one| sum.with(one.used))
    }

    /// Reserves `whole` for an entry with a body of so many bytes.
    pub(super) fn reserve(&mut self, number: u64, whole: Cost, body_bytes: u64) {
        self.0.insert(number, Reservation { whole, body_bytes, used: Cost::default() });
    }

    /// Lets an entry use so many bytes for its body, if `fits` says so of what all use then; answers that.
    /// None without a reservation.
    pub(super) fn grow(&mut self, number: u64, bytes: u64, fits: impl FnOnce(Cost) -> bool) -> Option<bool> {
        let all = self.used();
        let reservation = self.0.get_mut(&number)?;
        let wanted = reservation.whole.with_less_body(reservation.body_bytes, bytes);
        let does_fit = fits(all.without(reservation.used).with(wanted));
        if does_fit {
            reservation.used = wanted;
        }
        Some(does_fit)
    }

    pub(super) fn release(&mut self, number: u64) {
        self.0.remove(&number);
    }
}
