//! How a stream spreads records over links, and how another stream puts them together again.

use wirepath_streams::{Framing, InputOrder, Late, OutputPattern, SHARE_HEADER, StreamBuilder};

use crate::custom::{InTurn, ToOne};
use crate::dice::{Dice, Tally};
use crate::mask::Mask;
use crate::record::{Sizes, index, tag};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Records in turn.
    Turns,
    /// Records in turn, which are joined to one record of all links.
    Join { by_key: bool },
    /// Records to random links.
    Random,
    /// Records to the links with the shortest wait, ordered by their tags.
    Tags,
    /// Parts of so many bytes in turn.
    Parts(usize),
    /// A share of each record on each link, of which so many are needed.
    Shares(u8),
}

impl Scheme {
    pub(super) fn any(sizes: Sizes, links: usize, dice: &mut Dice) -> Scheme {
        match dice.below(6) {
            0 => Scheme::Turns,
            1 if matches!(sizes, Sizes::Fixed(_)) => Scheme::Join { by_key: dice.one_in(2) },
            1 | 2 => Scheme::Random,
            3 => Scheme::Tags,
            4 => Scheme::Parts(any_part(sizes, dice)),
            _ => Scheme::Shares(1 + dice.below(links) as u8),
        }
    }

    /// The stream that spreads, without inputs and outputs.
    pub(super) fn spread(self, seed: u64, dice: &mut Dice, tally: &mut Tally) -> StreamBuilder {
        let builder = StreamBuilder::default();
        match self {
            Scheme::Turns | Scheme::Join { .. } if dice.one_in(3) => {
                tally.note("pattern: a custom one that gives to one output");
                let head_bytes = if dice.one_in(2) { dice.below(100) } else { 0 };
                builder.pattern_by(ToOne { dice: Dice(seed), head_bytes, turns: Some(0) })
            }
            Scheme::Turns | Scheme::Join { .. } => builder.pattern(OutputPattern::Stripe),
            Scheme::Random => builder.pattern(OutputPattern::Random { seed }),
            Scheme::Tags => builder.pattern(OutputPattern::Capacity),
            Scheme::Parts(bytes) => builder.pattern(OutputPattern::StripeBytes(bytes)),
            Scheme::Shares(threshold) => {
                tally.note("pattern: one of shares");
                builder.pattern(OutputPattern::Shares { threshold })
            }
        }
    }

    /// The stream that puts together, without inputs and outputs.
    pub(super) fn merge(self, seed: u64, links: usize, dice: &mut Dice, tally: &mut Tally) -> StreamBuilder {
        let builder = StreamBuilder::default();
        match self {
            Scheme::Turns if dice.one_in(3) => {
                tally.note("order: a custom one that takes turns");
                builder.order_by(InTurn::default())
            }
            Scheme::Turns | Scheme::Parts(_) => builder,
            Scheme::Random => builder.order(InputOrder::Random { seed }),
            // The window is never full, so no record leaves before its turn.
            Scheme::Tags => builder.order_by_tag(usize::MAX, usize::MAX, Late::Drop, tag),
            Scheme::Join { by_key: false } => {
                tally.note("order: a join of portions");
                builder.join(1 + dice.below(20), 1 + dice.below(200_000))
            }
            Scheme::Join { by_key: true } => {
                tally.note("order: a join of portions by key");
                // With a limit of bytes, a join by key gives up the oldest record for a portion of another.
                let key = move |portion: &[u8]| Some(index(portion)? / links as u64);
                builder.join_by_key(1 + dice.below(20), usize::MAX, key)
            }
            Scheme::Shares(threshold) => {
                tally.note("order: one that collects shares");
                builder.collect_shares(threshold, 1 + dice.below(20), 1 + dice.below(200_000))
            }
        }
    }

    /// Framing of what a link carries.
    pub(super) fn framing(self, sizes: Sizes) -> Framing {
        match (self, sizes) {
            (Scheme::Parts(bytes), _) => Framing::Fixed(bytes),
            (Scheme::Shares(_), Sizes::Fixed(bytes)) => Framing::Fixed(SHARE_HEADER + bytes),
            (Scheme::Shares(_), Sizes::Small | Sizes::Mixed) => shares(),
            (_, sizes) => sizes.framing(),
        }
    }

    /// The change that a handler may make before records are spread, and another undo where they come
    /// together; None if what reads the links, or the other handler, finds nothing by it.
    pub(super) fn mask(self) -> Option<Mask> {
        match self {
            Scheme::Turns | Scheme::Random | Scheme::Tags => Some(Mask::Payload),
            Scheme::Join { by_key: false } | Scheme::Parts(_) | Scheme::Shares(_) => Some(Mask::TopBits),
            Scheme::Join { by_key: true } => None,
        }
    }
}

/// Bytes of the parts in which records of these sizes are spread.
fn any_part(sizes: Sizes, dice: &mut Dice) -> usize {
    match sizes {
        Sizes::Small => 1 + dice.below(2000),
        Sizes::Mixed => 1 + sizes.any_length(dice),
        Sizes::Fixed(bytes) => bytes + dice.below(2000),
    }
}

/// Shares by the lengths in their headers.
fn shares() -> Framing {
    let measure = |bytes: &[u8], _| {
        let length = bytes.get(3..6)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        Some(SHARE_HEADER + length)
    };
    Framing::With { limit: 1 << 20, measure: Box::new(move |bytes, is_end| Ok(measure(bytes, is_end))) }
}
