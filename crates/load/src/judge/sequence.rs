//! Sequence numbers of a source, extended beyond 16 bits (RFC 3550 appendix A.1): detects loss, reordering
//! and duplicates.

/// Number of packets, up to the highest, for which it is recorded whether they were received.
const WINDOW: u64 = 2048;

const WORDS: usize = (WINDOW / 64) as usize;

/// Maximum gap that counts as loss (`MAX_DROPOUT`). A larger gap is a restart of the source.
const MOST_DROPPED: u64 = 3000;

/// Place of a packet relative to the packets before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The packet is later than all others, after a gap of so many packets.
    Ahead(u64),
    /// The packet fills a gap.
    Late,
    /// The packet is earlier than the first received one, with a gap of so many packets after it.
    Before(u64),
    /// The packet was received before.
    Duplicate,
    /// The packet is far from all others, and the only one so far: it is not counted.
    Stray,
    /// The source restarts with this packet.
    Restart,
}

/// Sequence numbers of a source.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// Highest number, extended; `None` before the first packet.
    highest: Option<u64>,
    /// Lowest number, extended.
    first: u64,
    /// Received packets: bit `n % WINDOW` is for packet `n`, for the last `WINDOW` packets.
    came: [u64; WORDS],
    /// Number of the packet that would confirm a restart.
    confirming: Option<u16>,
}

impl Default for Sequence {
    fn default() -> Sequence {
        Sequence { highest: None, first: 0, came: [0; WORDS], confirming: None }
    }
}

impl Sequence {
    /// Determines the place of the next received packet.
    pub(crate) fn place(&mut self, number: u16) -> Place {
        let Some(highest) = self.highest else {
            self.start(number);
            return Place::Ahead(0);
        };
        let ahead = number.wrapping_sub(highest as u16);
        let place = match ahead {
            0 => Place::Duplicate,
            1..0x8000 if u64::from(ahead) <= MOST_DROPPED => {
                self.advance(highest, u64::from(ahead));
                Place::Ahead(u64::from(ahead) - 1)
            }
            0x8000.. if u64::from(ahead.wrapping_neg()) < WINDOW => {
                self.fill(highest.wrapping_sub(u64::from(ahead.wrapping_neg())))
            }
            _ => return self.far(number),
        };
        self.confirming = None;
        place
    }

    /// Highest sequence number, with the number of wraps in the upper 16 bits, as in receiver reports.
    pub(crate) fn highest(&self) -> Option<u32> {
        // The first number is extended by one wrap, so that packets before it have numbers, too.
        self.highest.map(|highest| (highest - (1 << 16)) as u32)
    }

    /// Lowest sequence number since the start.
    pub(crate) fn first(&self) -> Option<u16> {
        self.highest.map(|_| self.first as u16)
    }

    fn start(&mut self, number: u16) {
        *self = Sequence::default();
        let highest = (1 << 16) | u64::from(number);
        (self.highest, self.first) = (Some(highest), highest);
        self.mark(highest);
    }

    fn advance(&mut self, highest: u64, by: u64) {
        if by >= WINDOW {
            self.came = [0; WORDS];
        } else {
            (highest + 1..highest + by).for_each(|number| self.clear(number));
        }
        self.highest = Some(highest + by);
        self.mark(highest + by);
    }

    fn fill(&mut self, number: u64) -> Place {
        if self.has(number) {
            return Place::Duplicate;
        }
        self.mark(number);
        if number < self.first {
            let gap = self.first - number - 1;
            self.first = number;
            return Place::Before(gap);
        }
        Place::Late
    }

    /// Two consecutive packets restart a source; a single packet is a stray.
    fn far(&mut self, number: u16) -> Place {
        if self.confirming == Some(number) {
            self.start(number);
            return Place::Restart;
        }
        self.confirming = Some(number.wrapping_add(1));
        Place::Stray
    }

    fn mark(&mut self, number: u64) {
        self.came[word(number)] |= 1 << (number % 64);
    }

    fn clear(&mut self, number: u64) {
        self.came[word(number)] &= !(1 << (number % 64));
    }

    fn has(&self, number: u64) -> bool {
        self.came[word(number)] & 1 << (number % 64) != 0
    }
}

fn word(number: u64) -> usize {
    (number % WINDOW / 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(numbers: impl IntoIterator<Item = u16>) -> Vec<Place> {
        let mut sequence = Sequence::default();
        numbers.into_iter().map(|number| sequence.place(number)).collect()
    }

    #[test]
    fn numbers_wrap() {
        let mut sequence = Sequence::default();
        assert!((65_530..=65_535).chain(0..6).all(|number| sequence.place(number) == Place::Ahead(0)));
        assert_eq!(sequence.highest(), Some(65_536 + 5));
    }

    #[test]
    fn gaps_are_lost_until_they_are_filled() {
        use Place::{Ahead, Duplicate, Late};
        assert_eq!(
            places([65_534, 3, 0, 0, 1, 65_535, 2, 3, 4]),
            [Ahead(0), Ahead(4), Late, Duplicate, Late, Late, Late, Duplicate, Ahead(0)]
        );
    }

    #[test]
    fn packets_before_the_first_are_told_apart() {
        use Place::{Ahead, Before, Duplicate, Late};
        assert_eq!(places([5, 4, 4, 0, 2]), [Ahead(0), Before(0), Duplicate, Before(3), Late]);
    }

    #[test]
    fn a_source_starts_anew_after_two_packets_in_a_row() {
        use Place::{Ahead, Restart, Stray};
        assert_eq!(places([100, 40_000, 101, 40_001, 40_002]), [Ahead(0), Stray, Ahead(0), Stray, Restart]);
        assert_eq!(places([0, 3_000, 6_001]), [Ahead(0), Ahead(2_999), Stray]);
    }

    #[test]
    fn a_window_that_is_passed_forgets() {
        let mut sequence = Sequence::default();
        sequence.place(0);
        sequence.place(2_047);
        assert_eq!((sequence.place(0), sequence.place(1)), (Place::Duplicate, Place::Late));
        sequence.place(4_096);
        assert_eq!(sequence.place(2_049), Place::Late);
        assert_eq!(sequence.place(2_048), Place::Stray);
    }

    proptest! {
        /// Every packet of a stream with reordering and loss is counted once.
        #[test]
        fn what_came_and_what_is_missing_make_the_whole(
            first: u16, kept in prop::collection::vec(any::<bool>(), 1..500),
            swaps in prop::collection::vec((0..500usize, 1..40usize), 0..100),
        ) {
            let mut numbers: Vec<usize> = (0..kept.len()).filter(|index| kept[*index]).collect();
            for (at, by) in swaps {
                if at + by < numbers.len() {
                    numbers.swap(at, at + by);
                }
            }
            let mut missing = 0i64;
            for place in places(numbers.iter().map(|number| first.wrapping_add(*number as u16))) {
                match place {
                    Place::Ahead(gap) | Place::Before(gap) => missing += gap as i64,
                    Place::Late => missing -= 1,
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            if let (Some(first), Some(last)) = (numbers.iter().min(), numbers.iter().max()) {
                prop_assert_eq!(numbers.len() as i64 + missing, (last - first + 1) as i64);
            }
        }
    }
}
