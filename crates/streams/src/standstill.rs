//! For how long nothing has come any further, as far as looks from time to time tell.

/// How often to look within the time that something may stand still, so that it is found within a quarter more.
pub const STANDSTILL_LOOKS: u32 = 4;

/// Since when the signs that something comes further have been the same. A sign need not say when it changed: bytes that a connection
/// has taken and its peer has not, for one, tell only that they are others than at the last look.
#[derive(Debug)]
pub struct Standstill<T> {
    /// The signs, and when they were first seen, in microseconds of CLOCK_MONOTONIC.
    last: Option<(T, u64)>,
}

impl<T> Default for Standstill<T> {
    /// Nobody has looked yet.
    fn default() -> Standstill<T> {
        Standstill { last: None }
    }
}

impl<T: PartialEq> Standstill<T> {
    /// Looks: how long the signs have been these, in microseconds. At the first look that is 0.
    pub fn of(&mut self, signs: T, now_us: u64) -> u64 {
        let since_us = match &self.last {
            Some((last, since_us)) if *last == signs => *since_us,
            _ => now_us,
        };
        self.last = Some((signs, since_us));
        now_us.saturating_sub(since_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_look_that_saw_the_last_change() {
        let mut standstill = Standstill::default();
        assert_eq!(standstill.of((1, 2), 1000), 0, "the first look");
        assert_eq!(standstill.of((1, 2), 1500), 500);
        assert_eq!(standstill.of((1, 3), 2000), 0, "one of two signs has changed");
        assert_eq!(standstill.of((1, 2), 2500), 0, "and back");
        assert_eq!(standstill.of((1, 2), 4000), 1500);
        assert_eq!(standstill.of((1, 2), 3000), 500, "looks of two threads may come the other way round");
    }
}
