//! To which output a record goes: the KStreams paper's pushing order (section 3.1).

use crate::order::Turns;
use crate::secret::Dealer;

/// How records are spread over outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPattern {
    /// A record to each in turn.
    Stripe,
    /// So many bytes (at least 1) to each in turn, whatever records there are; each such part is a record from then on.
    StripeBytes(usize),
    /// A record to one at random, each equally likely; the same seed gives the same order.
    Random {
        /// The seed.
        seed: u64,
    },
    /// Every record to all.
    Mirror,
    /// A record to the one that will be done with it first, by what waits for it and what it took lately.
    Capacity,
    /// A share of every record to each. Any so many outputs together (at least 1) have the records, fewer have nothing.
    Shares {
        /// How many.
        threshold: u8,
    },
}

/// Where a stream is in its pattern.
#[derive(Debug)]
pub(crate) enum Spread {
    Turns(Turns),
    Bytes {
        turns: Turns,
        unit: usize,
        left: usize,
    },
    Mirror,
    /// The output that got the beginning of the record that goes by.
    Capacity {
        chosen: Option<u64>,
    },
    Shares(Dealer),
}

impl From<OutputPattern> for Spread {
    fn from(pattern: OutputPattern) -> Spread {
        match pattern {
            OutputPattern::Stripe => Spread::Turns(Turns::round_robin()),
            OutputPattern::StripeBytes(unit) => {
                Spread::Bytes { turns: Turns::round_robin(), unit: unit.max(1), left: unit.max(1) }
            }
            OutputPattern::Random { seed } => Spread::Turns(Turns::random(seed)),
            OutputPattern::Mirror => Spread::Mirror,
            OutputPattern::Capacity => Spread::Capacity { chosen: None },
            OutputPattern::Shares { threshold } => Spread::Shares(Dealer::new(threshold)),
        }
    }
}

impl Spread {
    /// The output at `place`, which was `port`, is gone.
    pub(crate) fn removed(&mut self, place: usize, port: u64) {
        match self {
            Spread::Turns(turns) => turns.removed(place),
            Spread::Bytes { turns, unit, left } => {
                if turns.is_current(place) {
                    *left = *unit;
                }
                turns.removed(place);
            }
            // Whoever else has the beginning of a record gets the rest of it.
            Spread::Capacity { chosen } => *chosen = chosen.filter(|chosen| *chosen != port),
            Spread::Mirror | Spread::Shares(_) => {}
        }
    }
}

/// How much an output took lately: bytes, of which what is a second old counts a third (1/e).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lately {
    bytes: f64,
    at_us: u64,
}

impl Lately {
    pub(crate) fn add(&mut self, bytes: usize, now_us: u64) {
        let past_s = now_us.saturating_sub(self.at_us) as f64 / 1e6;
        self.bytes = self.bytes * (-past_s).exp() + bytes as f64;
        self.at_us = now_us;
    }

    /// Bytes a second, as far as they are remembered: each counts for about a second.
    pub(crate) fn bytes_per_second(&self, now_us: u64) -> f64 {
        let past_s = now_us.saturating_sub(self.at_us) as f64 / 1e6;
        self.bytes * (-past_s).exp()
    }

    /// How long what waits at `now_us` will take, in seconds or so; for comparing outputs.
    pub(crate) fn wait(&self, waiting: usize, now_us: u64) -> f64 {
        waiting as f64 / (self.bytes_per_second(now_us) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_stays_with_its_output_when_another_leaves() {
        let mut spread = Spread::Capacity { chosen: Some(7) };
        spread.removed(0, 3);
        assert!(matches!(spread, Spread::Capacity { chosen: Some(7) }));
        spread.removed(0, 7);
        assert!(matches!(spread, Spread::Capacity { chosen: None }));
    }

    /// Promise: By capacity, an output that drops records gets none while others have room.
    #[test]
    fn who_took_more_lately_waits_less() {
        let (mut fast, mut slow) = (Lately::default(), Lately::default());
        fast.add(1_000_000, 1_000_000);
        slow.add(1_000_000, 1_000_000);
        let now_us = 3_000_000;
        fast.add(1_000_000, now_us);
        assert!(
            fast.wait(1000, now_us) < slow.wait(1000, now_us),
            "what is old counts less, added to or not"
        );
        assert!(fast.wait(1000, now_us) > slow.wait(0, now_us));
        assert!(slow.wait(1000, 1_000_000) < slow.wait(1000, now_us));
    }
}
