//! Timer wheel: orders keys by deadline, in constant time and without allocation once it has grown.
//!
//! Pure: time is an argument. Deadlines are grouped into ticks of a millisecond; within a tick, keys are in
//! the order of insertion. A deadline beyond one revolution stays in its slot until its revolution.

/// Length of a tick in microseconds: the precision of timers, and the shortest sleep between timers.
pub const TICK_US: u64 = 1000;

const SLOTS: usize = 1024;
const NONE: u32 = u32::MAX;

/// Keys (small integers, as from a slab) ordered by deadline, in microseconds of a single clock.
pub struct TimerWheel {
    /// First and last key in the list of each slot.
    slots: Box<[(u32, u32); SLOTS]>,
    /// Bit set of the slots that are not empty.
    occupied: [u64; SLOTS / 64],
    entries: Vec<Entry>,
    /// First tick whose keys have not all been taken.
    tick: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    previous: u32,
    next: u32,
    /// Tick of the deadline; `IDLE` if the key is not in the wheel.
    tick: u64,
}

const IDLE: u64 = u64::MAX;

impl TimerWheel {
    /// Makes an empty wheel.
    pub fn new(now_us: u64) -> TimerWheel {
        TimerWheel {
            slots: Box::new([(NONE, NONE); SLOTS]),
            occupied: [0; SLOTS / 64],
            entries: Vec::new(),
            tick: now_us / TICK_US,
        }
    }

    /// Sets the deadline of `key`, and replaces an earlier one. The key is due at the first tick that is not
    /// before `deadline_us`.
    pub fn set(&mut self, key: usize, deadline_us: u64) {
        self.cancel(key);
        if key >= self.entries.len() {
            self.entries.resize(key + 1, Entry { previous: NONE, next: NONE, tick: IDLE });
        }
        let tick = deadline_us.div_ceil(TICK_US).max(self.tick).min(IDLE - 1);
        let slot = tick as usize % SLOTS;
        let (first, last) = self.slots[slot];
        self.entries[key] = Entry { previous: last, next: NONE, tick };
        if last == NONE {
            self.slots[slot] = (key as u32, key as u32);
            self.occupied[slot / 64] |= 1 << (slot % 64);
        } else {
            self.entries[last as usize].next = key as u32;
            self.slots[slot] = (first, key as u32);
        }
    }

    /// Removes the deadline of `key`, if it has one.
    pub fn cancel(&mut self, key: usize) {
        let Some(entry) = self.entries.get(key).copied().filter(|entry| entry.tick != IDLE) else { return };
        let slot = entry.tick as usize % SLOTS;
        match entry.previous {
            NONE => self.slots[slot].0 = entry.next,
            previous => self.entries[previous as usize].next = entry.next,
        }
        match entry.next {
            NONE => self.slots[slot].1 = entry.previous,
            next => self.entries[next as usize].previous = entry.previous,
        }
        if self.slots[slot].0 == NONE {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        self.entries[key].tick = IDLE;
    }

    /// Removes and returns a key that is due at `now_us`.
    pub fn pop(&mut self, now_us: u64) -> Option<usize> {
        let now = now_us / TICK_US;
        while self.tick <= now {
            if let Some(key) = self.due_in_slot(now) {
                self.cancel(key);
                return Some(key);
            }
            // Limits the advance: after a pause of more than a revolution, every slot is checked once.
            let distance = self.distance_to_occupied().unwrap_or(u64::MAX).max(1);
            self.tick = self.tick.saturating_add(distance).min(now + 1);
        }
        None
    }

    /// Time of the next [`TimerWheel::pop`] in microseconds, never after the next deadline. None if there are
    /// no deadlines.
    pub fn next_us(&self) -> Option<u64> {
        Some((self.tick + self.distance_to_occupied()?) * TICK_US)
    }

    /// First key of the current slot that is due at tick `now`. Other keys of the slot are due one or more
    /// revolutions later.
    fn due_in_slot(&self, now: u64) -> Option<usize> {
        let mut key = self.slots[self.tick as usize % SLOTS].0;
        while key != NONE {
            let entry = &self.entries[key as usize];
            if entry.tick <= now {
                return Some(key as usize);
            }
            key = entry.next;
        }
        None
    }

    /// Number of ticks from the current one to the next slot that is not empty.
    fn distance_to_occupied(&self) -> Option<u64> {
        let start = self.tick as usize % SLOTS;
        (0..=SLOTS / 64)
            .find_map(|step| {
                let word = (start / 64 + step) % (SLOTS / 64);
                let from = if step == 0 { start % 64 } else { 0 };
                let bits = self.occupied[word] >> from << from;
                (bits != 0).then(|| (word * 64 + bits.trailing_zeros() as usize + SLOTS - start) % SLOTS)
            })
            .map(|distance| distance as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn due_in_order_and_never_early() {
        let mut wheel = TimerWheel::new(0);
        wheel.set(2, 5_500);
        wheel.set(1, 2_000);
        assert_eq!(wheel.next_us(), Some(2_000));
        assert_eq!(wheel.pop(1_999), None);
        assert_eq!(wheel.pop(2_000), Some(1));
        assert_eq!(wheel.pop(5_999), None);
        assert_eq!(wheel.next_us(), Some(6_000));
        assert_eq!(wheel.pop(6_000), Some(2));
        assert_eq!(wheel.next_us(), None);
    }

    #[test]
    fn a_deadline_in_the_past_is_due_at_once() {
        let mut wheel = TimerWheel::new(10_000_000);
        wheel.set(0, 5);
        assert_eq!(wheel.pop(10_000_000), Some(0));
    }

    #[test]
    fn a_key_set_again_while_its_tick_is_taken_from_comes_later() {
        let mut wheel = TimerWheel::new(0);
        wheel.set(0, 1000);
        assert_eq!(wheel.pop(1000), Some(0));
        wheel.set(0, 1000);
        assert_eq!(wheel.pop(1000), Some(0));
        assert_eq!(wheel.pop(1000), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(usize, u64),
        Cancel(usize),
        Pass(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0usize..20, 0u64..3_000_000).prop_map(|(key, after)| Step::Set(key, after)),
            (0usize..20).prop_map(Step::Cancel),
            (0u64..2_500_000).prop_map(Step::Pass),
        ];
        proptest::collection::vec(step, 1..100)
    }

    proptest! {
        /// Compared with a sorted map: the same keys are due at the same times, and `next_us` is never too
        /// late.
        #[test]
        fn like_a_sorted_map(start in 0u64..10_000_000, steps in steps()) {
            let (mut wheel, mut model, mut now) = (TimerWheel::new(start), BTreeMap::new(), start);
            for step in steps {
                match step {
                    Step::Set(key, after) => {
                        wheel.set(key, now + after);
                        model.insert(key, (now + after).div_ceil(TICK_US));
                    }
                    Step::Cancel(key) => {
                        wheel.cancel(key);
                        model.remove(&key);
                    }
                    Step::Pass(time) => now += time,
                }
                let mut due: Vec<usize> = std::iter::from_fn(|| wheel.pop(now)).collect();
                due.sort_unstable();
                let expected: Vec<usize> =
                    model.iter().filter(|(_, tick)| **tick <= now / TICK_US).map(|(key, _)| *key).collect();
                prop_assert_eq!(&due, &expected);
                model.retain(|_, tick| *tick > now / TICK_US);
                match model.values().min() {
                    None => prop_assert_eq!(wheel.next_us(), None),
                    Some(earliest) => {
                        let next = wheel.next_us().expect("there is a deadline");
                        prop_assert!(next <= earliest * TICK_US, "{} after {}", next, earliest * TICK_US);
                        prop_assert!(next > now / TICK_US * TICK_US, "would spin");
                    }
                }
            }
        }
    }
}
