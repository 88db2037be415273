//! Turns: the polling order of inputs and the pushing order of outputs in the KStreams paper (section 3.1).
//!
//! Round robin and random order wait for the input whose turn it is. So an input order reverses an output
//! pattern of the same kind: round robin reverses stripes, and a random order reverses a random pattern with
//! the same seed.

use wirepath_media::random::Random;

/// Chooses the next of several members (inputs or outputs) in the order in which they were attached. The cost
/// of a turn does not depend on the number of members.
#[derive(Debug)]
pub(crate) struct Turns {
    random: Option<Random>,
    /// Slot of each member, ascending. In random order, slots of removed members are still drawn and skipped:
    /// the end of an input must not change the draws of the others. Such slots are removed when another
    /// member is added, which does change the draws.
    slots: Vec<usize>,
    /// Number of slots, including those of removed members.
    count: usize,
    /// Slot whose turn it is.
    next: usize,
    /// `next` was drawn and not used yet.
    drawn: bool,
}

impl Turns {
    pub(crate) fn round_robin() -> Turns {
        Turns { random: None, slots: Vec::new(), count: 0, next: 0, drawn: false }
    }

    pub(crate) fn random(seed: u64) -> Turns {
        Turns { random: Some(Random::new(seed)), ..Turns::round_robin() }
    }

    /// Place of the member whose turn it is, among `members` (at least one). The answer stays the same until
    /// the turn is [taken](Turns::taken) or members are added or removed.
    pub(crate) fn current(&mut self, members: usize) -> usize {
        if members > self.slots.len() {
            self.welcome(members);
        }
        loop {
            if !self.drawn {
                self.next = match &mut self.random {
                    Some(random) => random.below(self.count as u64) as usize,
                    None => self.next % self.count,
                };
            }
            if let Some(place) = self.place() {
                self.drawn = true;
                return place;
            }
        }
    }

    pub(crate) fn taken(&mut self) {
        self.drawn = false;
        self.next += 1;
    }

    /// Place of the member whose turn it is, if it was already drawn.
    pub(crate) fn drawn(&self) -> Option<usize> {
        self.place().filter(|_| self.drawn)
    }

    /// Returns whether it is the turn of the member at `place`, if it was already drawn.
    pub(crate) fn is_current(&self, place: usize) -> bool {
        self.drawn && self.slots.get(place) == Some(&self.next)
    }

    /// Removes the member at `place`; later members move up.
    pub(crate) fn removed(&mut self, place: usize) {
        if place >= self.slots.len() {
            return;
        }
        let slot = self.slots.remove(place);
        self.drawn &= slot != self.next;
        if self.random.is_some() {
            return;
        }
        self.slots[place..].iter_mut().for_each(|behind| *behind -= 1);
        self.count -= 1;
        if slot < self.next {
            self.next -= 1;
        }
    }

    /// Inserts a member at `place`; members from there on move by one place. A member after all others need
    /// not be inserted.
    pub(crate) fn inserted(&mut self, place: usize) {
        let members = self.slots.len();
        if place >= members {
            return;
        }
        let first = members + 1; // all members have had their turn
        self.next = self.place().map_or(first, |whose| whose + usize::from(whose >= place));
        self.slots = (0..=members).collect();
        self.count = members + 1;
    }

    /// Adds members; each has the slot of its place.
    fn welcome(&mut self, members: usize) {
        if let (true, Some(place)) = (self.drawn, self.place()) {
            self.next = place;
        }
        self.slots = (0..members).collect();
        self.count = members;
    }

    /// Place of the member in the next slot, if the member still exists.
    fn place(&self) -> Option<usize> {
        self.slots.binary_search(&self.next).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(turns: &mut Turns, members: usize) -> usize {
        let current = turns.current(members);
        assert_eq!(turns.current(members), current, "it waits");
        turns.taken();
        current
    }

    #[test]
    fn round_robin_goes_on_where_it_was_when_members_come_and_go() {
        let mut turns = Turns::round_robin();
        assert_eq!([0; 4].map(|_| take(&mut turns, 3)), [0, 1, 2, 0]);
        turns.removed(0); // 1 and 2 are 0 and 1 now, and it is the turn of 1
        assert_eq!([0; 3].map(|_| take(&mut turns, 2)), [0, 1, 0]);
        assert_eq!(take(&mut turns, 3), 1, "one more came");
        turns.removed(2);
        assert_eq!(take(&mut turns, 2), 0);
    }

    #[test]
    fn an_input_added_between_others_takes_no_other_turn() {
        for drawn in [false, true] {
            for turns_taken in 0..3 {
                for place in 0..=3 {
                    let mut turns = Turns::round_robin();
                    turns.current(3);
                    (0..turns_taken).for_each(|turn| assert_eq!(take(&mut turns, 3), turn));
                    if drawn {
                        turns.current(3);
                    }
                    turns.inserted(place);
                    let moved = |before: usize| before + usize::from(before >= place);
                    assert_eq!(take(&mut turns, 4), moved(turns_taken), "{drawn} {turns_taken} {place}");
                }
            }
        }
        let mut turns = Turns::round_robin();
        (0..3).for_each(|turn| assert_eq!(take(&mut turns, 3), turn));
        turns.inserted(1);
        assert_eq!([0; 4].map(|_| take(&mut turns, 4)), [0, 1, 2, 3], "all had theirs");
    }

    #[test]
    fn random_order_is_repeatable_and_even() {
        let draw = |seed| {
            let mut turns = Turns::random(seed);
            (0..3000).map(|_| take(&mut turns, 3)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for member in 0..3 {
            let count = draw(7).iter().filter(|drawn| **drawn == member).count();
            assert!((900..1100).contains(&count), "{count} of 3000");
        }
    }

    /// Promise: The cost of a record does not grow with the number of silent inputs.
    #[test]
    fn a_removed_input_changes_no_other_draw_and_is_forgotten_when_another_is_added() {
        let (mut all, mut fewer) = (Turns::random(7), Turns::random(7));
        assert_eq!(take(&mut all, 4), take(&mut fewer, 4));
        fewer.removed(1);
        let others: Vec<usize> = (0..100).map(|_| take(&mut all, 4)).filter(|member| *member != 1).collect();
        let drawn: Vec<usize> = others.iter().map(|_| [0, 2, 3][take(&mut fewer, 3)]).collect();
        assert_eq!(drawn, others);
        for _ in 0..1000 {
            let waits = fewer.current(4);
            fewer.removed((waits + 1) % 4);
            let place = fewer.current(3);
            assert!(place == waits || place + 1 == waits, "it is still its turn");
        }
        assert_eq!(fewer.count, 4, "there never were more at a time");
    }
}
