//! Start slots: times at which playbacks begin, so that those of a thread are due together.
//!
//! A thread that wakes for a single train pays for the wake-up each time, and its caches are cold after each
//! sleep. Every playback is due once in a burst. So playbacks that begin in the same slot of a burst share
//! their wake-ups for as long as they play. If all of many playbacks were in one slot, each would wait for
//! all others; so there are enough slots to keep the number in each small.

/// Distances of slots, each a multiple of the next one, so that existing playbacks stay in slots when the
/// number of playbacks grows. The largest is the longest time that a playback waits for its first train;
/// below the smallest, the thread would hardly sleep in between.
const DISTANCES_US: [u64; 3] = [20_000, 10_000, 5_000];

/// Playbacks that share a slot before there are more slots: half a millisecond of work. More would gain
/// nothing.
const SLOT_PLAYBACKS: u64 = 128;

/// The slots of a burst, handed out in turn.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    turn: u64,
}

impl Slots {
    /// Start time of a playback that is ready at `now_us`, on a thread with `playbacks` playbacks, including
    /// this one. Its first burst begins at `source_us` of its source, divided by its speed.
    ///
    /// Bursts begin at multiples of their length in that time. So the start of the source is placed in a
    /// slot: the playback is then still in one when bursts have become longer.
    pub(crate) fn next_us(&mut self, now_us: u64, source_us: u64, burst_us: u64, playbacks: u64) -> u64 {
        let distance_us = distance_us(burst_us, playbacks);
        self.turn = self.turn.wrapping_add(1);
        let skipped = self.turn % (burst_us.min(DISTANCES_US[0]) / distance_us).max(1);
        let source_phase_us = source_us % distance_us;
        let after_slot_us = (now_us + distance_us - source_phase_us) % distance_us;
        now_us + (distance_us - after_slot_us) % distance_us + skipped * distance_us
    }
}

/// The largest distance that divides two bursts and gives slots with few playbacks, else the smallest.
///
/// Two bursts, because bursts of 10 and 50 ms grow to multiples of 20 ms: with playbacks that began every 10
/// ms, the thread would from then on wake twice as often.
fn distance_us(burst_us: u64, playbacks: u64) -> u64 {
    let divides = |distance_us: &u64| (2 * burst_us).is_multiple_of(*distance_us);
    let mut dividing = DISTANCES_US.into_iter().filter(divides);
    let has_few = |distance_us: &u64| playbacks <= SLOT_PLAYBACKS * (burst_us / distance_us).max(1);
    let distance_us = dividing.clone().find(has_few).or(dividing.next_back());
    distance_us.unwrap_or(burst_us.min(DISTANCES_US[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burst::Burst;
    use crate::speed::Speed;
    use crate::timetable::Timetable;
    use std::collections::{HashMap, HashSet};

    /// Number of `playbacks` that begin at each position of the burst, in microseconds.
    fn crowds(burst_us: u64, playbacks: u64) -> HashMap<u64, u64> {
        let mut slots = Slots::default();
        let mut crowds = HashMap::new();
        for number in 0..playbacks {
            let now_us = 123_456_789 + number * 777;
            let begin_us = slots.next_us(now_us, 0, burst_us, playbacks);
            assert!((now_us..=now_us + 2 * DISTANCES_US[0]).contains(&begin_us));
            *crowds.entry(begin_us % burst_us).or_default() += 1;
        }
        crowds
    }

    /// Promise: Sessions of a thread share wake-ups; with many sessions, none waits for all others.
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

    /// Promise: Sessions that began with short bursts share wake-ups with others after bursts have grown.
    #[test]
    fn playbacks_of_short_bursts_are_in_slots_of_long_ones() {
        const LONG_US: u64 = 100_000;
        let mut slots = Slots::default();
        let mut wakes = HashSet::new();
        for number in 1..=50 {
            let (now_us, at_us) = (123_456_789 + number * 7_777_777, number * 1_234_567);
            let burst_us = Burst::Auto { most_us: LONG_US }.length_us(number);
            let begin_us = slots.next_us(now_us, at_us - at_us % burst_us, burst_us, number);
            assert!((now_us..=now_us + DISTANCES_US[0]).contains(&begin_us));
            let mut timetable = Timetable::starting(at_us, begin_us, burst_us, Speed::NORMAL);
            // The first long burst begins where a short one would have begun.
            timetable.due_us(at_us + LONG_US, LONG_US);
            wakes.insert(timetable.due_us(at_us + 2 * LONG_US, LONG_US) % LONG_US);
        }
        assert_eq!(wakes.len() as u64, LONG_US / DISTANCES_US[0], "{wakes:?}");
    }

    #[test]
    fn slots_of_few_playbacks_are_slots_of_many() {
        for burst_us in [10_000, 20_000, 50_000, 100_000, 500_000] {
            let distances = [1, 200, 1000, 100_000].map(|playbacks| distance_us(burst_us, playbacks));
            assert!(distances.windows(2).all(|pair| pair[0].is_multiple_of(pair[1])), "{distances:?}");
            assert!((2 * burst_us).is_multiple_of(distances[0]));
        }
    }

    #[test]
    fn long_and_odd_bursts_delay_nobody_for_long() {
        for burst_us in [1, 999, 1000, 19_999, 33_333, 500_000] {
            let mut slots = Slots::default();
            for now_us in (0..2_000_000).step_by(7919) {
                for playbacks in [1, 100] {
                    let begin_us = slots.next_us(now_us, now_us / 3, burst_us, playbacks);
                    let latest_us = now_us + 2 * DISTANCES_US[0];
                    assert!((now_us..=latest_us).contains(&begin_us), "{burst_us} at {now_us}: {begin_us}");
                }
            }
        }
    }
}
