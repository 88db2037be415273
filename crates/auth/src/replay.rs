//! Counts of requests that were seen with each nonce, so that none is served twice.

use std::collections::BTreeMap;

use crate::nonce::Nonce;

/// Most nonces whose counts are kept.
const MOST: usize = 16 * 1024;

/// Counts below the highest one that are still accepted: requests on parallel connections overtake each other.
const WINDOW: u32 = 64;

/// Counts of the nonces that were answered with the right password.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    seen: BTreeMap<u64, Seen>,
    /// Nonces below were forgotten, and are not accepted any more.
    floor: u64,
}

#[derive(Debug)]
struct Seen {
    expires_ms: u64,
    highest: u32,
    /// Bit `n`: the count `highest - n` was seen.
    counts: u64,
}

impl Replays {
    /// Notes a count; false if it was seen before, or may have been.
    pub(crate) fn accept(&mut self, nonce: Nonce, count: u32, now_ms: u64) -> bool {
        while self.seen.first_entry().is_some_and(|first| first.get().expires_ms <= now_ms) {
            self.seen.pop_first();
        }
        if nonce.number < self.floor || count == 0 {
            return false;
        }
        let new = Seen { expires_ms: nonce.expires_ms, highest: 0, counts: 0 };
        let is_new = self.seen.entry(nonce.number).or_insert(new).note(count);
        if self.seen.len() > MOST
            && let Some((number, _)) = self.seen.pop_first()
        {
            self.floor = number + 1;
        }
        is_new
    }
}

impl Seen {
    fn note(&mut self, count: u32) -> bool {
        if let Some(ahead) = count.checked_sub(self.highest).filter(|&ahead| ahead > 0) {
            self.counts = if ahead < WINDOW { self.counts << ahead } else { 0 };
            self.counts |= 1;
            self.highest = count;
            return true;
        }
        let behind = self.highest - count;
        let is_new = behind < WINDOW && self.counts & 1 << behind == 0;
        if is_new {
            self.counts |= 1 << behind;
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(number: u64) -> Nonce {
        Nonce { number, expires_ms: 100 + number }
    }

    /// Promise: Each nonce count is accepted once; counts from parallel connections may arrive out of order.
    #[test]
    fn each_count_is_accepted_once() {
        let mut replays = Replays::default();
        let mut accept = |number, count| replays.accept(nonce(number), count, 0);
        assert!(accept(1, 1) && !accept(1, 1) && accept(2, 1));
        assert!(accept(1, 5) && accept(1, 3) && !accept(1, 3) && accept(1, 2) && !accept(1, 0));
        assert!(accept(1, 200) && !accept(1, 199 - 64) && accept(1, 199 - 62) && accept(1, u32::MAX));
        assert!(!accept(1, u32::MAX));
    }

    #[test]
    fn forgotten_nonces_are_refused_and_expired_ones_take_no_room() {
        let mut replays = Replays::default();
        for number in 1..=MOST as u64 + 10 {
            assert!(replays.accept(nonce(number), 1, 0));
        }
        assert_eq!(replays.seen.len(), MOST);
        assert!(!replays.accept(nonce(10), 2, 0), "it may have been seen");
        assert!(replays.accept(nonce(11), 2, 0));
        assert!(replays.accept(nonce(30_000), 1, 200_000));
        assert_eq!(replays.seen.len(), 1);
    }
}
