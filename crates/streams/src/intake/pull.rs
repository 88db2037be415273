//! Reading records from inputs, in the configured order.

use bytes::BytesMut;

use super::{HandOn, Intake, Order, Pulled};
use crate::error::StreamError;
use crate::event::StreamEvent;
use crate::framing::FramingError;
use crate::record::Run;
use crate::shared::Shared;

impl Intake {
    /// Reads from inputs and hands records on. Returns whether anything was done.
    pub(crate) fn pull(&mut self, shared: &mut Shared, hand_on: &mut HandOn<'_>) -> bool {
        match &self.order {
            Order::Turns(_) | Order::Arrival(_) => self.pull_next(shared, hand_on),
            Order::Tags { .. } => self.pull_by_tag(shared, hand_on),
            Order::Shares(_) | Order::Join(_) => self.pull_gathered(shared, hand_on),
        }
    }

    /// Takes one record by turns or by a custom order, or a run by arrival.
    fn pull_next(&mut self, shared: &mut Shared, hand_on: &mut HandOn<'_>) -> bool {
        let by_turns = matches!(self.order, Order::Turns(_));
        while let Some(place) = self.next() {
            match self.read(place, shared) {
                Pulled::Run(run) => {
                    let takes_all = self.takes_runs() || self.inputs.len() == 1;
                    let taken = if takes_all { run } else { self.take_first(place, run) };
                    self.took(place, taken.ends);
                    self.counts.records += taken.begun();
                    hand_on(taken, shared);
                    // Now, and not in the input's next turn: until then the input would keep the others off
                    // the zero-copy route.
                    if by_turns && self.inputs[place].is_used_up() {
                        self.remove(place, shared);
                    }
                    return true;
                }
                Pulled::Dropped => {
                    if let Order::Arrival(arrivals) = &mut self.order {
                        arrivals.skip(self.inputs[place].port);
                    }
                    return true;
                }
                Pulled::Nothing if self.set_idle(place) => {}
                Pulled::Nothing => return false,
                Pulled::Gone => {
                    self.end(place, shared);
                    return true;
                }
            }
        }
        self.report_order(shared)
    }

    /// Returns whether the order is asked once per run and not once per record.
    fn takes_runs(&self) -> bool {
        matches!(&self.order, Order::Arrival(arrivals) if !arrivals.is_custom())
    }

    fn pull_by_tag(&mut self, shared: &mut Shared, hand_on: &mut HandOn<'_>) -> bool {
        let mut progressed = false;
        for place in 0..self.inputs.len() {
            while self.merge_wants(place) && !shared.turn.is_over() {
                match self.read(place, shared) {
                    Pulled::Run(run) => {
                        let record = self.take_first(place, run);
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
            && let Some(record) = merge.take(|late| self.counts.dropped_bytes += late.bytes.len() as u64)
        {
            progressed = true;
            self.hand_on(record, shared, hand_on);
        }
        progressed | self.remove_merged(shared)
    }

    /// Returns whether the merge takes more from the input at `place`: one waiting record is enough while
    /// other inputs have none.
    fn merge_wants(&self, place: usize) -> bool {
        let Order::Tags { merge, .. } = &self.order else { return false };
        !merge.has_ended(place) && (merge.is_empty(place) || merge.has_room())
    }

    /// Removes inputs that have ended and have no waiting record.
    fn remove_merged(&mut self, shared: &mut Shared) -> bool {
        let done = |intake: &Intake| {
            let Order::Tags { merge, .. } = &intake.order else { return None };
            (0..intake.inputs.len()).find(|place| merge.has_ended(*place) && merge.is_empty(*place))
        };
        let mut removed = false;
        while let Some(place) = done(self) {
            self.remove(place, shared);
            removed = true;
        }
        removed
    }

    /// The next run of an input. A failing input still gives the bytes that were read before, as whole
    /// records at least, and is then removed.
    pub(crate) fn read(&mut self, place: usize, shared: &mut Shared) -> Pulled {
        self.cut_if_failing(shared);
        self.zero_copy.note_change_of(place);
        loop {
            let input = &mut self.inputs[place];
            let before = input.bytes;
            let pulled = input.next_run(shared);
            let read = input.bytes - before;
            self.counts.bytes += read;
            shared.turn.add(read);
            self.tell_malformed(place, shared);
            match pulled {
                Err(StreamError::Framing { error: FramingError::Cut { .. }, .. })
                    if self.cut_share(place) => {}
                Err(error) => self.fail_input(place, error, shared), // called again for the divided records
                Ok(pulled) => {
                    if matches!(pulled, Pulled::Run(_)) {
                        self.last_is_unframed = self.inputs[place].is_unframed();
                    }
                    return pulled;
                }
            }
        }
    }

    pub(super) fn hand_on(&mut self, run: Run<BytesMut>, shared: &mut Shared, hand_on: &mut HandOn<'_>) {
        self.counts.records += run.begun();
        hand_on(run, shared);
    }

    /// Reports the first malformed datagram of an input.
    pub(super) fn tell_malformed(&mut self, place: usize, shared: &mut Shared) {
        let input = &mut self.inputs[place];
        if let Some(error) = input.first_error.take() {
            let by = input.object.name.clone();
            shared.tell(StreamEvent::RecordRefused { by, error });
        }
    }

    /// Takes the first record of a run, and keeps the others for later.
    pub(super) fn take_first(&mut self, place: usize, mut run: Run<BytesMut>) -> Run<BytesMut> {
        let first = run.take_first();
        if !run.is_used_up() {
            self.inputs[place].ready.push_front(run);
        }
        first
    }
}
