//! Orders that build each record from parts of several inputs: from shares, or from portions.
//!
//! Inputs are read in turn, one part each, as long as the order needs more parts of them.

use bytes::BytesMut;

use super::{HandOn, Intake, Order, Pulled};
use crate::record::Run;
use crate::shared::Shared;

/// Most parts of an input that are read before records are handed on.
const ROUNDS: usize = 64;

impl Intake {
    pub(super) fn pull_gathered(&mut self, shared: &mut Shared, hand_on: &mut HandOn<'_>) -> bool {
        let mut progressed = false;
        for _ in 0..ROUNDS {
            if shared.turn.is_over()
                || !(self.pull_part_of_each(shared) | self.hand_on_gathered(shared, hand_on))
            {
                break;
            }
            progressed = true;
        }
        progressed
    }

    /// Takes one part from each input that is to be read.
    fn pull_part_of_each(&mut self, shared: &mut Shared) -> bool {
        let (mut progressed, mut place) = (false, 0);
        while place < self.inputs.len() {
            if !self.wants_part_of(place) {
                place += 1;
                continue;
            }
            match self.read(place, shared) {
                Pulled::Run(run) => {
                    let part = self.take_first(place, run);
                    self.gather(place, &part, shared);
                }
                Pulled::Dropped => {}
                Pulled::Nothing => {
                    place += 1;
                    continue;
                }
                Pulled::Gone => {
                    self.remove(place, shared);
                    progressed = true;
                    continue;
                }
            }
            progressed = true;
            place += 1;
        }
        progressed
    }

    fn wants_part_of(&self, place: usize) -> bool {
        match &self.order {
            Order::Shares(_) => self.wants_share_of(place),
            Order::Join(_) => self.wants_portion_of(place),
            Order::Turns(_) | Order::Arrival(_) | Order::Tags { .. } => false,
        }
    }

    fn gather(&mut self, place: usize, part: &Run<BytesMut>, shared: &mut Shared) {
        match &self.order {
            Order::Shares(_) => self.collect_share(place, part, shared),
            Order::Join(_) => self.join_portion(place, part, shared),
            Order::Turns(_) | Order::Arrival(_) | Order::Tags { .. } => {}
        }
    }

    /// Hands on complete records in order.
    fn hand_on_gathered(&mut self, shared: &mut Shared, hand_on: &mut HandOn<'_>) -> bool {
        let mut progressed = false;
        while let Some(record) = self.take_recovered().or_else(|| self.take_joined()) {
            progressed = true;
            self.hand_on(record, shared, hand_on);
        }
        progressed
    }
}
