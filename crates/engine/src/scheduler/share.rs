//! Shares of classes, in rounds: "In each round, there is a target volume for each class calculated based on
//! its share. […] Unused volume from each class can be partially forwarded to the next round" (KStreams,
//! section 3.4).

/// Rest of each class in this round.
#[derive(Debug)]
pub(super) struct Shares {
    classes: Vec<Share>,
    /// The class that had its turn last: within a round classes take turns.
    last: usize,
}

#[derive(Debug)]
struct Share {
    /// Amount in a round.
    target: i64,
    most_carried: i64,
    /// Left in this round; negative if it took too much.
    left: i64,
}

/// Least amount of a class in a round, so that it has turns at all.
const LEAST: i64 = 1;

impl Shares {
    pub(super) fn new(shares: impl Iterator<Item = u32> + Clone, round: u64, carry_percent: u8) -> Shares {
        let sum: u128 = shares.clone().map(|share| u128::from(share.max(1))).sum();
        let classes = shares
            .map(|share| {
                let target = u128::from(round) * u128::from(share.max(1)) / sum.max(1);
                let target = i64::try_from(target).unwrap_or(i64::MAX / 4).clamp(LEAST, i64::MAX / 4);
                let most_carried = (i128::from(target) * i128::from(carry_percent.min(100)) / 100) as i64;
                Share { target, most_carried, left: target }
            })
            .collect();
        Shares { classes, last: 0 }
    }

    /// The next class of those that `has_work`, if any has. Begins a new round when all of them have used
    /// their share.
    pub(super) fn next(&mut self, has_work: impl Fn(usize) -> bool) -> Option<usize> {
        let (count, last) = (self.classes.len(), self.last);
        let turns = (1..=count).map(|step| (last + step) % count);
        if !turns.clone().any(&has_work) {
            return None;
        }
        loop {
            if let Some(class) = turns.clone().find(|class| self.classes[*class].left > 0 && has_work(*class))
            {
                self.last = class;
                return Some(class);
            }
            self.begin_rounds(&has_work);
        }
    }

    pub(super) fn left(&self, class: usize) -> u64 {
        u64::try_from(self.classes[class].left).unwrap_or(0)
    }

    pub(super) fn spend(&mut self, class: usize, cost: u64) {
        let share = &mut self.classes[class];
        share.left = share.left.saturating_sub(i64::try_from(cost).unwrap_or(i64::MAX));
    }

    /// Begins as many rounds as it takes until a class that has work has something left.
    fn begin_rounds(&mut self, has_work: impl Fn(usize) -> bool) {
        let needed =
            |share: &Share| (LEAST - share.left).max(1).unsigned_abs().div_ceil(share.target.unsigned_abs());
        let with_work = self.classes.iter().enumerate().filter(|(class, _)| has_work(*class));
        let rounds = with_work.map(|(_, share)| needed(share)).min().unwrap_or(1).max(1);
        for share in &mut self.classes {
            // In each of these rounds but the first, what is carried is bounded again.
            let given = i128::from(share.target) * i128::from(rounds);
            let left = i128::from(share.left.min(share.most_carried)) + given;
            share.left = left.min(i128::from(share.target) + i128::from(share.most_carried)) as i64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unused_volume_is_carried_over_in_part_and_what_was_taken_too_much_in_full() {
        let mut shares = Shares::new([1, 1].into_iter(), 200, 25);
        shares.spend(0, 130);
        shares.spend(1, 60);
        assert_eq!((shares.left(0), shares.left(1)), (0, 40));
        assert_eq!(shares.next(|class| class == 0), Some(0), "a new round for the only class with work");
        assert_eq!((shares.left(0), shares.left(1)), (70, 125), "100 - 30, and 100 + 25 of 40");
    }

    #[test]
    fn a_class_that_took_many_rounds_too_much_waits_that_long_and_no_longer() {
        let mut shares = Shares::new([1, 1].into_iter(), 200, 0);
        shares.spend(0, 1_000_000);
        for _ in 0..9_999 {
            assert_eq!(shares.next(|_| true), Some(1));
            shares.spend(1, 100);
        }
        assert_eq!(shares.next(|class| class == 0), Some(0), "alone, it need not wait");
    }

    proptest! {
        /// Promise: Classes get their shares within 1 % over 100 rounds; no class starves, and overuse is
        /// paid back.
        ///
        /// Costs that are not known before: nothing takes more than the turn too much that it began while
        /// something was left, whatever the others do, and nothing gathers more than a round's worth and what
        /// may be carried.
        #[test]
        fn debts_and_savings_are_bounded(
            parts in proptest::collection::vec(1u32..50, 1..6),
            carry_percent in 0u8..=100,
            turns in proptest::collection::vec((1u64..1_000_000, any::<u8>()), 1..500),
        ) {
            let mut shares = Shares::new(parts.iter().copied(), 100_000, carry_percent);
            let most = 1_000_000;
            for (cost, working) in turns {
                let Some(class) = shares.next(|class| working >> class & 1 == 1) else { continue };
                prop_assert!(shares.classes[class].left > 0);
                shares.spend(class, cost);
                for Share { target, most_carried, left } in &shares.classes {
                    prop_assert!(*left > -most && *left <= target + most_carried);
                    prop_assert!(*most_carried <= target * i64::from(carry_percent) / 100);
                }
            }
        }
    }

    #[test]
    fn no_work_no_turn() {
        assert_eq!(Shares::new([1, 3].into_iter(), 100, 0).next(|_| false), None);
    }
}
