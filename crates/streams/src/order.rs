//! From which input the next record comes: the KStreams paper's polling order (section 3.1).
//!
//! Round robin and random order wait for the input whose turn it is. So what was striped over outputs is put together again by an
//! input order of the same kind: round robin undoes round robin, and a random order undoes a random pattern with the same seed.

use wirepath_media::random::Random;

/// The order of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputOrder {
    /// One record from each in turn.
    RoundRobin,
    /// One record from one at random, each equally likely; the same seed gives the same order.
    Random {
        /// The seed.
        seed: u64,
    },
    /// A record from whichever has one; each is asked first in turn.
    Arrival,
}

/// Chooses among members, which are inputs or outputs, in the order in which they were attached.
#[derive(Debug)]
pub(crate) struct Turns {
    random: Option<Random>,
    /// Whether the member is still there, for every one that ever was. At random, those that are gone are drawn and passed over: an
    /// input that has ended must not change what is drawn for the others.
    slots: Vec<bool>,
    /// The slot whose turn it is.
    next: usize,
    /// Whether `next` was drawn and not yet used.
    drawn: bool,
}

impl Turns {
    pub(crate) fn round_robin() -> Turns {
        Turns { random: None, slots: Vec::new(), next: 0, drawn: false }
    }

    pub(crate) fn random(seed: u64) -> Turns {
        Turns { random: Some(Random::new(seed)), slots: Vec::new(), next: 0, drawn: false }
    }

    /// The place of the member whose turn it is, of `members`, of which there is at least one. The answer stays the same until the
    /// turn is [taken](Turns::taken) or members come or go.
    pub(crate) fn current(&mut self, members: usize) -> usize {
        let there = self.slots.iter().filter(|is_there| **is_there).count();
        self.slots.extend((there..members).map(|_| true));
        while !self.drawn {
            self.next = match &mut self.random {
                Some(random) => random.below(self.slots.len() as u64) as usize,
                None => self.next % self.slots.len(),
            };
            self.drawn = self.slots[self.next];
        }
        self.slots[..self.next].iter().filter(|is_there| **is_there).count()
    }

    /// The member whose turn it was had it.
    pub(crate) fn taken(&mut self) {
        self.drawn = false;
        self.next += 1;
    }

    /// Whether it is the turn of the member at `place`, and was before.
    pub(crate) fn is_current(&self, place: usize) -> bool {
        self.drawn && self.slot(place) == Some(self.next)
    }

    /// The member at `place` is gone; those behind it move up.
    pub(crate) fn removed(&mut self, place: usize) {
        let Some(slot) = self.slot(place) else { return };
        self.drawn &= slot != self.next;
        if self.random.is_some() {
            self.slots[slot] = false;
            return;
        }
        self.slots.remove(slot);
        if slot < self.next {
            self.next -= 1;
        }
    }

    fn slot(&self, place: usize) -> Option<usize> {
        let there = self.slots.iter().enumerate().filter(|(_, is_there)| **is_there);
        there.map(|(slot, _)| slot).nth(place)
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
}
