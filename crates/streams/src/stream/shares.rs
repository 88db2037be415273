//! Putting shares together: which inputs are asked, and what is handed on.
//!
//! A stream of bytes brings its shares in the order of their records, so what it may still bring is known, and it can be left to wait:
//! when as much waits as may, only inputs are read that have not come past the record that goes next, until they have. Nothing is lost
//! because one connection is ahead of another. Datagrams come as they like and wait nowhere: a record that only they could complete
//! is given up when more waits than may.

use super::input::Pulled;
use super::{Order, Stream};
use crate::record::Run;

/// Most shares that are taken from an input before what came of them is handed on.
const ROUNDS: usize = 64;

impl Stream {
    pub(super) fn pull_shares(&mut self) -> bool {
        let mut progressed = false;
        for _ in 0..ROUNDS {
            if self.is_turn_over() || !(self.pull_share_of_each() | self.hand_on_shared()) {
                break;
            }
            progressed = true;
        }
        progressed
    }

    /// Takes one share from each input that is to be asked.
    fn pull_share_of_each(&mut self) -> bool {
        let (mut progressed, mut place) = (false, 0);
        while place < self.inputs.len() {
            if !self.wants_share_of(place) {
                place += 1;
                continue;
            }
            match self.next_run(place) {
                Pulled::Run(mut run) => {
                    let share = self.take_first(place, &mut run);
                    self.collect_share(place, &share);
                }
                Pulled::Dropped => {}
                Pulled::Nothing => {
                    place += 1;
                    continue;
                }
                Pulled::Gone => {
                    self.remove_input(place);
                    progressed = true;
                    continue;
                }
            }
            progressed = true;
            place += 1;
        }
        progressed
    }

    /// Whether another share of the input at `place` may wait, or is what others wait for.
    fn wants_share_of(&self, place: usize) -> bool {
        let Order::Shares(collector) = &self.order else { return false };
        let input = &self.inputs[place];
        if input.object.has_records() {
            return !collector.is_overfull();
        }
        collector.has_room() || collector.first().is_none_or(|first| input.next_share <= first)
    }

    /// Puts a share to the others. One that is none is the end of its input, or is dropped if it came as a datagram.
    fn collect_share(&mut self, place: usize, share: &Run) {
        let Order::Shares(collector) = &mut self.order else { return };
        let input = &mut self.inputs[place];
        match collector.offer(&share.bytes) {
            Ok(number) => input.next_share = input.next_share.max(number + 1),
            Err(error) if input.object.has_records() => input.note_malformed(share.bytes.len(), &error),
            Err(error) => {
                // What came with it is not to be believed either.
                let rest: usize = input.ready.drain(..).map(|run| run.bytes.len()).sum();
                self.counts.bytes_dropped += (share.bytes.len() + rest) as u64;
                self.input_failed(place, error.into());
            }
        }
        self.tell_misfit(place);
    }

    /// Hands on the records that are complete and whose turn it is.
    fn hand_on_shared(&mut self) -> bool {
        let mut progressed = false;
        let has_datagrams = self.inputs.iter().any(|input| input.object.has_records());
        loop {
            let streams = self.inputs.iter().filter(|input| !input.object.has_records());
            let behind = |number| streams.clone().filter(|input| input.next_share <= number).count();
            let Order::Shares(collector) = &mut self.order else { return progressed };
            let Some(record) = collector.take(has_datagrams, behind) else { return progressed };
            progressed = true;
            self.handle(Run::single(record, true, true));
        }
    }
}
