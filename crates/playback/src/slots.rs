//! Start slots: when playbacks begin, so that those of a thread are due together.
//!
//! A thread that wakes for each train alone pays for a wake-up with each, and its caches are cold after each
//! sleep. Every playback is due once in a burst, so playbacks that begin in the same slot of a burst share
//! their wake-ups for as long as they play. In one slot for all, each of many playbacks would wait for all
//! others; so there are enough slots to keep the number in each small.

/// Distances of slots, each a multiple of the next: when the number of playbacks grows, those of before stay
/// in slots. The largest is the longest time that a playback waits for its first train; below the least, the
/// thread would hardly sleep in between.
const DISTANCES_US: [u64; 3] = [20_000, 10_000, 5_000];

/// Playbacks that share a slot before there are more slots: half a millisecond's work. More gain nothing.
const SLOT_PLAYBACKS: u64 = 128;

/// The slots of a burst, handed out in turn.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    turn: u64,
}

impl Slots {
    /// Time at which a playback begins that is ready at `now_us`, on a thread that has `playbacks`, itself
    /// included.
    pub(crate) fn next_us(&mut self, now_us: u64, burst_us: u64, playbacks: u64) -> u64 {
        let distance_us = distance_us(burst_us, playbacks);
        self.turn = self.turn.wrapping_add(1);
        let skipped = self.turn % (burst_us.min(DISTANCES_US[0]) / distance_us).max(1);
        let in_burst_us = now_us % burst_us;
        let next_us = now_us - in_burst_us + in_burst_us.next_multiple_of(distance_us);
        next_us + skipped * distance_us
    }
}

/// The largest distance that divides the burst and with which few playbacks share a slot, else the least.
fn distance_us(burst_us: u64, playbacks: u64) -> u64 {
    let mut dividing = DISTANCES_US.into_iter().filter(|distance_us| burst_us.is_multiple_of(*distance_us));
    let has_few = |distance_us: &u64| playbacks <= SLOT_PLAYBACKS * (burst_us / distance_us);
    let distance_us = dividing.clone().find(has_few).or(dividing.next_back());
    distance_us.unwrap_or(burst_us.min(DISTANCES_US[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Number of `playbacks` that begin at each place of the burst, in microseconds.
    fn crowds(burst_us: u64, playbacks: u64) -> HashMap<u64, u64> {
        let mut slots = Slots::default();
        let mut crowds = HashMap::new();
        for number in 0..playbacks {
            let now_us = 123_456_789 + number * 777;
            let begin_us = slots.next_us(now_us, burst_us, playbacks);
            assert!((now_us..=now_us + 2 * DISTANCES_US[0]).contains(&begin_us));
            *crowds.entry(begin_us % burst_us).or_default() += 1;
        }
        crowds
    }

    /// Promise: Sessions of a thread share wake-ups, and many do not wait for all others.
    #[test]
    fn a_few_begin_together_and_many_are_spread_evenly() {
        assert_eq!(crowds(20_000, 100).len(), 1);
        for slots in [5, 10, 20] {
            let crowds = crowds(100_000, slots * SLOT_PLAYBACKS);
            assert_eq!(crowds.len() as u64, slots);
            let uneven = |crowd: &u64| crowd.abs_diff(SLOT_PLAYBACKS) > SLOT_PLAYBACKS / 5;
            assert!(!crowds.values().any(uneven), "{crowds:?}");
        }
    }

    #[test]
    fn slots_of_few_playbacks_are_slots_of_many() {
        for burst_us in [10_000, 20_000, 50_000, 100_000, 500_000] {
            let distances = [1, 200, 1000, 100_000].map(|playbacks| distance_us(burst_us, playbacks));
            assert!(distances.windows(2).all(|pair| pair[0].is_multiple_of(pair[1])), "{distances:?}");
            assert!(burst_us.is_multiple_of(distances[0]));
        }
    }

    #[test]
    fn long_and_odd_bursts_delay_nobody_for_long() {
        for burst_us in [1, 999, 1000, 19_999, 33_333, 500_000] {
            let mut slots = Slots::default();
            for now_us in (0..2_000_000).step_by(7919) {
                for playbacks in [1, 100] {
                    let begin_us = slots.next_us(now_us, burst_us, playbacks);
                    let latest_us = now_us + 2 * DISTANCES_US[0];
                    assert!((now_us..=latest_us).contains(&begin_us), "{burst_us} at {now_us}: {begin_us}");
                }
            }
        }
    }
}
