//! Sending of trains by io_uring, which lends their memory to the kernel, while that saves copies.

/// Least number of copied trains of a receiver before lending stops.
const LEAST_COPIED: u32 = 8;

/// State of lending to a receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LendingState {
    is_on: bool,
    /// True if lending continues although the kernel copies.
    is_unconditional: bool,
    /// Trains that were sent from registered memory, and how many of them the kernel copied.
    lent: u32,
    copied: u32,
}

impl LendingState {
    /// Nothing is lent.
    pub(crate) const OFF: LendingState =
        LendingState { is_on: false, is_unconditional: false, lent: 0, copied: 0 };

    /// Lending until the kernel has copied half of the trains.
    pub(crate) const UNLESS_COPIED: LendingState = LendingState { is_on: true, ..LendingState::OFF };

    /// Lending in any case.
    pub(crate) const ALWAYS: LendingState =
        LendingState { is_unconditional: true, ..LendingState::UNLESS_COPIED };

    #[inline]
    pub(crate) fn is_on(self) -> bool {
        self.is_on
    }

    /// Ends lending.
    pub(crate) fn stop(&mut self) {
        self.is_on = false;
    }

    /// Notes that a queued train has left.
    pub(crate) fn note_lent(&mut self) {
        self.lent = self.lent.saturating_add(1);
    }

    /// Notes that the kernel copied a lent train.
    pub(crate) fn note_copied(&mut self) {
        self.copied = self.copied.saturating_add(1);
        let saves = self.copied < LEAST_COPIED || self.copied < self.lent / 2;
        self.is_on &= self.is_unconditional || saves;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lending_ends_when_half_of_the_trains_are_copied() {
        let noted = |mut lending: LendingState, lent, copied| {
            (0..lent).for_each(|_| lending.note_lent());
            (0..copied).for_each(|_| lending.note_copied());
            lending.is_on()
        };
        assert!(noted(LendingState::UNLESS_COPIED, 7, 7));
        assert!(noted(LendingState::UNLESS_COPIED, 100, 49));
        assert!(!noted(LendingState::UNLESS_COPIED, 100, 50));
        assert!(noted(LendingState::ALWAYS, 100, 100));
        assert!(!noted(LendingState::OFF, 100, 0));
    }
}
