//! Taking records from inputs, in their order, and through the handlers.

use super::input::Pulled;
use super::{Order, Stream, StreamEvent};
use crate::record::Run;

impl Stream {
    /// Takes from inputs, unless what was taken before still waits for room. Answers whether anything was done.
    pub(super) fn pull(&mut self) -> bool {
        if !self.pending.is_empty() || self.outputs.is_empty() {
            return self.let_inputs_leave();
        }
        let pulled = match &self.order {
            Order::Turns(_) => self.pull_in_turn(),
            Order::Arrival(_) => self.pull_as_it_comes(),
            Order::Tags { .. } => self.pull_by_tag(),
            Order::Shares(_) => self.pull_shares(),
        };
        pulled | self.let_inputs_leave()
    }

    fn pull_in_turn(&mut self) -> bool {
        let Order::Turns(turns) = &mut self.order else { return false };
        if self.inputs.is_empty() {
            return false;
        }
        let place = turns.current(self.inputs.len());
        let is_alone = self.inputs.len() == 1;
        match self.next_run(place) {
            Pulled::Run(mut run) => {
                let first = if is_alone { run } else { self.take_first(place, &mut run) };
                if let (true, Order::Turns(turns)) = (first.ends, &mut self.order) {
                    turns.taken();
                }
                self.handle(first);
                // Not when its turn comes again: what others have could not be moved unseen until then.
                if self.inputs[place].is_used_up() {
                    self.remove_input(place);
                }
                true
            }
            Pulled::Dropped => true,
            Pulled::Nothing => false,
            Pulled::Gone => {
                self.input_is_over(place);
                true
            }
        }
    }

    fn pull_by_tag(&mut self) -> bool {
        let mut progressed = false;
        for place in 0..self.inputs.len() {
            while self.merge_wants(place) && !self.is_turn_over() {
                match self.next_run(place) {
                    Pulled::Run(mut run) => {
                        let record = self.take_first(place, &mut run);
                        if let Order::Tags { tag, merge } = &mut self.order {
                            merge.offer(place, tag(&record.bytes), record);
                        }
                        progressed = true;
                    }
                    Pulled::Dropped => {
                        progressed = true;
                        break;
                    }
                    Pulled::Nothing => break,
                    Pulled::Gone => {
                        if let Order::Tags { merge, .. } = &mut self.order {
                            merge.end_input(place);
                        }
                        break;
                    }
                }
            }
        }
        while let Order::Tags { merge, .. } = &mut self.order
            && let Some(record) = merge.take(|late| self.counts.bytes_dropped += late.bytes.len() as u64)
        {
            progressed = true;
            self.handle(record);
        }
        progressed | self.remove_merged()
    }

    /// Whether the merge takes more from the input at `place`: one record that waits is enough while others have none.
    fn merge_wants(&self, place: usize) -> bool {
        let Order::Tags { merge, .. } = &self.order else { return false };
        !merge.has_ended(place) && (merge.is_empty(place) || merge.has_room())
    }

    /// Removes inputs that have ended and of which nothing waits.
    fn remove_merged(&mut self) -> bool {
        let done = |stream: &Stream| {
            let Order::Tags { merge, .. } = &stream.order else { return None };
            (0..stream.inputs.len()).find(|place| merge.has_ended(*place) && merge.is_empty(*place))
        };
        let mut removed = false;
        while let Some(place) = done(self) {
            self.remove_input(place);
            removed = true;
        }
        removed
    }

    /// Tells of the first datagram that an input dropped; of others the number is enough.
    pub(super) fn tell_misfit(&mut self, place: usize) {
        let input = &mut self.inputs[place];
        if let Some(error) = input.misfit.take() {
            let by = input.object.name.clone();
            self.tell(StreamEvent::RecordRefused { by, error });
        }
    }

    /// Takes the first record of a run, and keeps the others for later.
    pub(super) fn take_first(&mut self, place: usize, run: &mut Run) -> Run {
        let first = run.take_records(1);
        if !run.is_used_up() {
            self.inputs[place].ready.push_front(run.clone());
        }
        first
    }

    /// Has handlers see a run; what they make waits for room. Behind a record at which one failed nothing goes.
    pub(super) fn handle(&mut self, run: Run) {
        self.counts.records_in += run.begun();
        if self.chain.has_failed() {
            self.counts.bytes_dropped += run.bytes.len() as u64;
            return;
        }
        if self.chain.is_empty() {
            return self.pending.push_back(run);
        }
        let bytes = run.bytes.len() as u64;
        let applied = self.chain.apply(run, &mut self.made);
        let made: u64 = self.made.iter().map(|run| run.bytes.len() as u64).sum();
        self.pending.extend(self.made.drain(..));
        if let Err(error) = applied {
            self.counts.bytes_dropped += bytes.saturating_sub(made);
            return self.fail(error.into());
        }
        let refusal = self.chain.take_refusal();
        self.tell_refusal(refusal);
    }

    /// The next run of an input. One that fails has given what was read before, whole records at least, when it is gone.
    pub(super) fn next_run(&mut self, place: usize) -> Pulled {
        let room = self.room();
        self.inputs_unchanged = false;
        loop {
            let before = self.inputs[place].bytes;
            let pulled = self.inputs[place].next_run(room, &mut self.storage, self.watcher.as_ref());
            self.counts.bytes_in += self.inputs[place].bytes - before;
            self.tell_misfit(place);
            match pulled {
                Err(error) => self.input_failed(place, error), // and asked again, for what is divided
                Ok(pulled) => {
                    if matches!(pulled, Pulled::Run(_)) {
                        self.is_endless_pending = self.inputs[place].is_endless();
                    }
                    return pulled;
                }
            }
        }
    }
}
