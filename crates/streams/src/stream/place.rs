//! Giving records to outputs, by the pattern.

use super::{Output, Stream, StreamError};
use crate::outbox::Offered;
use crate::pattern::Spread;
use crate::record::Run;

impl Stream {
    /// Gives what is pending to outputs as far as they have room. Answers whether anything was done.
    pub(super) fn place(&mut self, now_us: u64) -> bool {
        let mut progressed = false;
        while let Some(run) = self.pending.pop_front() {
            let before = run.bytes.len();
            if let Some(rest) = self.place_run(run, now_us) {
                progressed |= rest.bytes.len() < before;
                self.pending.push_front(rest);
                break;
            }
            progressed = true;
        }
        progressed
    }

    /// Gives a run to outputs; answers what had no room.
    fn place_run(&mut self, run: Run, now_us: u64) -> Option<Run> {
        self.skipping &= !run.begins;
        if self.skipping {
            self.counts.bytes_dropped += run.bytes.len() as u64;
            return None;
        }
        let mut rest = Some(run);
        while let Some(mut run) = rest.take() {
            if self.outputs.is_empty() {
                return Some(run);
            }
            let placed = match &self.spread {
                Spread::Turns(_) => self.place_in_turn(&mut run),
                Spread::Bytes { .. } => self.place_bytes(&mut run),
                Spread::Capacity { .. } => self.place_by_capacity(&mut run, now_us),
                Spread::Mirror => self.mirror(&run),
                Spread::Shares(_) => self.share(&run),
            };
            match placed {
                Placed::Blocked => return Some(run),
                Placed::All => {}
                Placed::Some => rest = (!run.is_used_up()).then_some(run),
            }
        }
        None
    }

    fn place_in_turn(&mut self, run: &mut Run) -> Placed {
        let count = self.outputs.len();
        let Spread::Turns(turns) = &mut self.spread else { return Placed::Blocked };
        let place = turns.current(count);
        if self.outputs[place].outbox.blocks() {
            return Placed::Blocked;
        }
        let part = if count == 1 { run.take_records(usize::MAX) } else { run.take_records(1) };
        if part.ends {
            turns.taken();
        }
        self.offer(place, part);
        Placed::Some
    }

    fn place_bytes(&mut self, run: &mut Run) -> Placed {
        if run.bytes.is_empty() {
            return Placed::Some; // the end of a record says nothing here
        }
        let count = self.outputs.len();
        let Spread::Bytes { turns, unit, left } = &mut self.spread else { return Placed::Blocked };
        let place = turns.current(count);
        if self.outputs[place].outbox.blocks() {
            return Placed::Blocked;
        }
        let bytes = run.bytes.split_to((*left).min(run.bytes.len()));
        let begins = *left == *unit;
        *left -= bytes.len();
        let ends = *left == 0;
        if ends {
            turns.taken();
            *left = *unit;
        }
        self.offer(place, Run::single(bytes, begins, ends));
        Placed::Some
    }

    fn place_by_capacity(&mut self, run: &mut Run, now_us: u64) -> Placed {
        let Spread::Capacity { chosen } = self.spread else { return Placed::Blocked };
        let place = match chosen {
            Some(port) => self.outputs.iter().position(|output| output.port.0 == port),
            None => self.soonest(now_us),
        };
        let Some(place) = place.filter(|place| !self.outputs[*place].outbox.blocks()) else {
            return Placed::Blocked;
        };
        let part = run.take_records(1);
        let chosen = (!part.ends).then_some(self.outputs[place].port.0);
        self.spread = Spread::Capacity { chosen };
        self.offer(place, part);
        Placed::Some
    }

    /// The output that will be done first, of those that have room; if none has, of those that drop what they have no room for.
    pub(super) fn soonest(&self, now_us: u64) -> Option<usize> {
        let rank =
            |output: &Output| (output.outbox.is_full(), output.lately.wait(output.outbox.bytes(), now_us));
        let may_be_chosen = self
            .outputs
            .iter()
            .enumerate()
            .filter(|(_, output)| !output.outbox.blocks() && output.held() == 0);
        let ranked = may_be_chosen.map(|(place, output)| (rank(output), place));
        let soonest = ranked.min_by(|((full, wait), _), ((other_full, other_wait), _)| {
            full.cmp(other_full).then(wait.total_cmp(other_wait))
        });
        soonest.map(|(_, place)| place)
    }

    fn mirror(&mut self, run: &Run) -> Placed {
        if self.outputs.iter().any(|output| output.outbox.blocks()) {
            return Placed::Blocked;
        }
        if !run.begins && !self.outputs.iter().any(|output| output.within) {
            self.counts.bytes_dropped += run.bytes.len() as u64; // whoever had its beginning is gone
        }
        for place in (0..self.outputs.len()).rev() {
            // One that came in the middle of a record waits for the next.
            if run.begins || self.outputs[place].within {
                self.offer(place, run.clone());
            }
        }
        Placed::All
    }

    fn share(&mut self, run: &Run) -> Placed {
        if self.outputs.iter().any(|output| output.outbox.blocks()) {
            return Placed::Blocked;
        }
        for piece in run.pieces() {
            // One that took nothing may have been let go of after the last record.
            let count = self.outputs.len();
            let Spread::Shares(dealer) = &mut self.spread else { return Placed::Blocked };
            let threshold = dealer.threshold();
            if count < usize::from(threshold) {
                self.counts.bytes_dropped += piece.bytes.len() as u64;
                self.fail(StreamError::TooFewOutputs { outputs: count, threshold });
                continue;
            }
            let shares = dealer.deal(piece.bytes, count);
            for (place, share) in shares.into_iter().enumerate().rev() {
                self.offer(place, Run::single(share, true, true));
            }
        }
        Placed::All
    }

    /// Gives a run to one output, through its own handlers. The output may be gone afterwards, and those behind it moved up.
    fn offer(&mut self, place: usize, run: Run) {
        let output = &mut self.outputs[place];
        let ends = run.ends;
        output.within = !ends;
        let (mut disconnect, mut failed) = (false, None);
        if output.chain.is_empty() {
            disconnect = output.outbox.offer(run) == Offered::Disconnect;
        } else if output.chain.has_failed() {
            output.outbox.note_lost(run.bytes.len());
        } else {
            let bytes = run.bytes.len() + output.chain.gathered();
            failed = output.chain.apply(run, &mut self.made).err();
            if failed.is_some() {
                let made: usize = self.made.iter().map(|run| run.bytes.len()).sum();
                output.outbox.note_lost(bytes.saturating_sub(made + output.chain.gathered()));
            }
            for run in self.made.drain(..) {
                disconnect |= output.outbox.offer(run) == Offered::Disconnect;
            }
            let refusal = output.chain.take_refusal();
            self.tell_refusal(refusal);
        }
        if let Some(error) = failed {
            self.fail(error.into());
        }
        let output = &mut self.outputs[place];
        if disconnect {
            return self.disconnect(place);
        }
        if ends {
            output.outbox.note_record_end();
        }
        if output.detach.is_some() && ends {
            self.move_out(place);
        }
    }
}

/// What came of placing a run.
enum Placed {
    /// There is no room for it.
    Blocked,
    /// What is left of it may be placed next.
    Some,
    /// All of it has a place.
    All,
}
