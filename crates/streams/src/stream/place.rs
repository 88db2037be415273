//! Giving records to outputs, by the pattern.

use super::{OnDetached, Output, Port, Stream, StreamError};
use crate::outbox::Offered;
use crate::pattern::Spread;
use crate::record::Run;

impl Stream {
    /// Gives what is pending to outputs as far as they have room. Answers whether anything was done.
    pub(super) fn place(&mut self) -> Result<bool, StreamError> {
        let mut progressed = false;
        while let Some(run) = self.pending.pop_front() {
            let before = run.bytes.len();
            if let Some(rest) = self.place_run(run)? {
                progressed |= rest.bytes.len() < before;
                self.pending.push_front(rest);
                break;
            }
            progressed = true;
        }
        Ok(progressed)
    }

    /// Gives a run to outputs; answers what had no room.
    fn place_run(&mut self, run: Run) -> Result<Option<Run>, StreamError> {
        self.skipping &= !run.begins;
        if self.skipping {
            self.counts.bytes_dropped += run.bytes.len() as u64;
            return Ok(None);
        }
        let mut rest = Some(run);
        while let Some(mut run) = rest.take() {
            if self.outputs.is_empty() {
                return Ok(Some(run));
            }
            let placed = match &self.spread {
                Spread::Turns(_) => self.place_in_turn(&mut run)?,
                Spread::Bytes { .. } => self.place_bytes(&mut run)?,
                Spread::Capacity { .. } => self.place_by_capacity(&mut run)?,
                Spread::Mirror => self.mirror(&run)?,
                Spread::Shares(_) => self.share(&run)?,
            };
            match placed {
                Placed::Blocked => return Ok(Some(run)),
                Placed::All => {}
                Placed::Some => rest = (!run.is_used_up()).then_some(run),
            }
        }
        Ok(None)
    }

    fn place_in_turn(&mut self, run: &mut Run) -> Result<Placed, StreamError> {
        let count = self.outputs.len();
        let Spread::Turns(turns) = &mut self.spread else { return Ok(Placed::Blocked) };
        let place = turns.current(count);
        if self.outputs[place].outbox.blocks() {
            return Ok(Placed::Blocked);
        }
        let part = if count == 1 { run.take_records(usize::MAX) } else { run.take_records(1) };
        if part.ends {
            turns.taken();
        }
        self.offer(place, part)?;
        Ok(Placed::Some)
    }

    fn place_bytes(&mut self, run: &mut Run) -> Result<Placed, StreamError> {
        if run.bytes.is_empty() {
            return Ok(Placed::Some); // the end of a record says nothing here
        }
        let count = self.outputs.len();
        let Spread::Bytes { turns, unit, left } = &mut self.spread else { return Ok(Placed::Blocked) };
        let place = turns.current(count);
        if self.outputs[place].outbox.blocks() {
            return Ok(Placed::Blocked);
        }
        let bytes = run.bytes.split_to((*left).min(run.bytes.len()));
        let begins = *left == *unit;
        *left -= bytes.len();
        let ends = *left == 0;
        if ends {
            turns.taken();
            *left = *unit;
        }
        self.offer(place, Run::single(bytes, begins, ends))?;
        Ok(Placed::Some)
    }

    fn place_by_capacity(&mut self, run: &mut Run) -> Result<Placed, StreamError> {
        let Spread::Capacity { chosen } = self.spread else { return Ok(Placed::Blocked) };
        let place = match chosen {
            Some(port) => self.outputs.iter().position(|output| output.port.0 == port),
            None => self.soonest(),
        };
        let Some(place) = place.filter(|place| !self.outputs[*place].outbox.blocks()) else {
            return Ok(Placed::Blocked);
        };
        let part = run.take_records(1);
        let chosen = (!part.ends).then_some(self.outputs[place].port.0);
        self.spread = Spread::Capacity { chosen };
        self.offer(place, part)?;
        Ok(Placed::Some)
    }

    /// The output that has room and will be done first.
    fn soonest(&self) -> Option<usize> {
        let with_room = self.outputs.iter().enumerate().filter(|(_, output)| !output.outbox.blocks());
        let wait = |output: &Output| output.lately.wait(output.outbox.bytes());
        with_room.min_by(|(_, one), (_, other)| wait(one).total_cmp(&wait(other))).map(|(place, _)| place)
    }

    fn mirror(&mut self, run: &Run) -> Result<Placed, StreamError> {
        if self.outputs.iter().any(|output| output.outbox.blocks()) {
            return Ok(Placed::Blocked);
        }
        for place in (0..self.outputs.len()).rev() {
            // One that came in the middle of a record waits for the next.
            if run.begins || self.outputs[place].within {
                self.offer(place, run.clone())?;
            }
        }
        Ok(Placed::All)
    }

    fn share(&mut self, run: &Run) -> Result<Placed, StreamError> {
        if self.outputs.iter().any(|output| output.outbox.blocks()) {
            return Ok(Placed::Blocked);
        }
        for piece in run.pieces() {
            // One that took nothing may have been let go of after the last record.
            let count = self.outputs.len();
            let Spread::Shares(dealer) = &mut self.spread else { return Ok(Placed::Blocked) };
            if count < usize::from(dealer.threshold()) {
                return Err(StreamError::TooFewOutputs { outputs: count, threshold: dealer.threshold() });
            }
            let shares = dealer.deal(piece.bytes, count);
            for (place, share) in shares.into_iter().enumerate().rev() {
                self.offer(place, Run::single(share, true, true))?;
            }
        }
        Ok(Placed::All)
    }

    /// Gives a run to one output, through its own handlers. The output may be gone afterwards, and those behind it moved up.
    fn offer(&mut self, place: usize, run: Run) -> Result<(), StreamError> {
        let output = &mut self.outputs[place];
        output.within = !run.ends;
        let mut disconnect = false;
        if output.chain.is_empty() {
            disconnect = output.outbox.offer(run) == Offered::Disconnect;
        } else {
            output.chain.apply(run, &mut self.made)?;
            for run in self.made.drain(..) {
                disconnect |= output.outbox.offer(run) == Offered::Disconnect;
            }
        }
        if disconnect {
            return self.disconnect(place);
        }
        if output.detach.is_some() && !output.within {
            self.move_out(place);
        }
        Ok(())
    }

    /// An output did not keep up: it gets nothing more, and is gone when nobody writes for it any more.
    fn disconnect(&mut self, place: usize) -> Result<(), StreamError> {
        let mut output = self.outputs.remove(place);
        output.outbox.drop_all();
        output.is_disconnected = true;
        let name = output.object.name.clone();
        self.forget_output(place, &output);
        self.leaving.push(output);
        if self.outputs.is_empty() {
            return Err(StreamError::NoOutput(format!("{name} did not keep up")));
        }
        Ok(())
    }

    /// The output at `place` is gone. The rest of a record that it alone had the beginning of is of no use to another.
    pub(super) fn forget_output(&mut self, place: usize, output: &Output) {
        self.spread.removed(place, output.port.0);
        self.skipping |= output.within && !matches!(self.spread, Spread::Mirror | Spread::Bytes { .. });
    }

    /// The output gets nothing more.
    fn move_out(&mut self, place: usize) {
        let output = self.outputs.remove(place);
        self.spread.removed(place, output.port.0);
        self.leaving.push(output);
    }

    /// Detaches an output after the record that it is given, when all that waits for it has left, and gives the object back. False if
    /// there is no such output.
    pub fn detach_output(
        &mut self,
        port: Port,
        on_detached: impl FnOnce(crate::Object) + Send + 'static,
    ) -> bool {
        let place = self.outputs.iter().position(|output| output.port == port && output.detach.is_none());
        let Some(place) = place else { return false };
        self.outputs[place].detach = Some(Box::new(on_detached) as OnDetached);
        if !self.outputs[place].within {
            self.move_out(place);
        }
        true
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
