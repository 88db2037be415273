//! Reserved space for bodies that are being written.

use std::collections::HashMap;

use crate::cache::cost::Cost;

/// Reservations, keyed by the number of the body.
#[derive(Debug, Default)]
pub(super) struct Reservations(HashMap<u64, Reservation>);

#[derive(Debug)]
struct Reservation {
    whole: Cost,
    body_bytes: u64,
    used: Cost,
}

impl Reservations {
    /// Sum of the reservations of all bodies.
    pub(super) fn reserved(&self) -> Cost {
        self.0.values().fold(Cost::default(), |sum, one| sum.with(one.whole))
    }

    /// Sum of the space that all bodies already use.
    pub(super) fn used(&self) -> Cost {
        self.0.values().fold(Cost::default(), |sum, one| sum.with(one.used))
    }

    /// Reserves `whole` for an entry whose body has so many bytes.
    pub(super) fn reserve(&mut self, number: u64, whole: Cost, body_bytes: u64) {
        self.0.insert(number, Reservation { whole, body_bytes, used: Cost::default() });
    }

    /// Lets the body of an entry grow to so many bytes, if `fits` accepts the resulting use of all bodies.
    /// Returns whether it did; None without a reservation.
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
