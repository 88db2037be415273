//! Start slots: when playbacks begin, so that those of a thread are due together.
//!
//! A thread that wakes for each train alone pays for a wake-up with each. Every playback is due once in a
//! burst, so playbacks that begin in the same slot of a burst share their wake-ups for as long as they play.
//! In one slot for all, each of many playbacks would wait for all others; so there are enough slots to keep
//! the number in each small.

use wirepath_engine::TICK_US;

/// Playbacks that share a slot before there is another slot.
const SLOT_PLAYBACKS: u64 = 16;

/// Least distance of slots: below that, the thread hardly sleeps in between.
const LEAST_DISTANCE_US: u64 = 2 * TICK_US;

/// Largest distance of slots: the longest time that a playback waits for its first train.
const LARGEST_DISTANCE_US: u64 = 20_000;

/// The slots of a burst, handed out in turn.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    turn: u64,
}

impl Slots {
    /// Time at which a playback begins that is ready at `now_us`, on a thread that has `playbacks`, itself
    /// included.
    pub(crate) fn next_us(&mut self, now_us: u64, burst_us: u64, playbacks: u64) -> u64 {
        let fewest = burst_us.div_ceil(LARGEST_DISTANCE_US);
        let most = (burst_us / LEAST_DISTANCE_US).max(fewest);
        let slots = playbacks.div_ceil(SLOT_PLAYBACKS).clamp(fewest, most);
        let spacing_us = (burst_us / slots).next_multiple_of(TICK_US);
        self.turn = self.turn.wrapping_add(1);
        let skipped = self.turn % (burst_us.min(LARGEST_DISTANCE_US) / spacing_us).max(1);
        let in_burst_us = now_us % burst_us;
        let next_us = now_us - in_burst_us + in_burst_us.next_multiple_of(spacing_us);
        next_us + skipped * spacing_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const BURST_US: u64 = 20_000;

    /// Number of `playbacks` that begin at each place of the burst.
    fn crowds(playbacks: u64) -> HashMap<u64, u64> {
        let mut slots = Slots::default();
        let mut crowds = HashMap::new();
        for number in 0..playbacks {
            let now_us = 123_456_789 + number * 777;
            let begin_us = slots.next_us(now_us, BURST_US, playbacks);
            assert!((now_us..=now_us + BURST_US).contains(&begin_us));
            *crowds.entry(begin_us % BURST_US).or_default() += 1;
        }
        crowds
    }

    #[test]
    fn a_few_begin_together() {
        assert_eq!(crowds(16).len(), 1);
    }

    #[test]
    fn many_are_spread_evenly() {
        let crowds = crowds(500);
        assert_eq!(crowds.len(), 10);
        assert!(crowds.values().all(|crowd| (40..=60).contains(crowd)), "{crowds:?}");
    }

    #[test]
    fn long_and_odd_bursts_delay_nobody_for_long() {
        for burst_us in [1, 999, 1000, 19_999, 33_333, 500_000] {
            let mut slots = Slots::default();
            for now_us in (0..2_000_000).step_by(7919) {
                for playbacks in [1, 100] {
                    let begin_us = slots.next_us(now_us, burst_us, playbacks);
                    let latest_us = now_us + 2 * LARGEST_DISTANCE_US;
                    assert!((now_us..=latest_us).contains(&begin_us), "{burst_us} at {now_us}: {begin_us}");
                }
            }
        }
    }
}
