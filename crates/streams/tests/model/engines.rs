//! The engines of the model: one with best effort scheduling, and one whose classes share processor time.

use wirepath_engine::{Class, Engine, EngineOptions, Placement, Policy, Rate, Round, Sharing};
use wirepath_streams::{RunningStream, Stream, StreamOptions};

use crate::dice::{Dice, Tally};

/// Shares of the classes of the second engine.
const SHARES: [u32; 3] = [1, 2, 5];

pub(crate) struct Engines {
    plain: Engine,
    sharing: Engine,
}

impl Engines {
    pub(crate) fn start() -> Engines {
        let engine = |options| Engine::start(options).unwrap();
        let class = |share: u32| Class { name: share.to_string(), priority: 0, share, rate: None };
        let policy = Policy::FairShare { round: Round::ProcessorTime(1000), carry_percent: 50 };
        let sharing = Sharing { policy, classes: SHARES.map(class).to_vec() };
        Engines {
            plain: engine(EngineOptions::default()),
            sharing: engine(EngineOptions { threads: 2, sharing, ..EngineOptions::default() }),
        }
    }

    /// Starts a stream on either engine; returns whether its classes share processor time.
    pub(crate) fn run(&self, stream: Stream, dice: &mut Dice, tally: &mut Tally) -> (RunningStream, bool) {
        if dice.one_in(2) {
            tally.note("operation: start on the engine");
            return (stream.start(&self.plain, StreamOptions::default()), false);
        }
        tally.note("operation: start in a class that shares processor time");
        let class = dice.below(SHARES.len());
        (
            stream.start(
                &self.sharing,
                StreamOptions {
                    placement: Placement { class, ..Placement::default() },
                    ..StreamOptions::default()
                },
            ),
            true,
        )
    }
}

/// A rate; some rates are close to zero.
pub(crate) fn any_rate(dice: &mut Dice) -> Rate {
    let per_second = if dice.one_in(4) { 1 } else { 1 << (20 + dice.below(6)) };
    Rate { per_second, burst: 1 << dice.below(18) }
}
