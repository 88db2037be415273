//! Inputs that leave: at their end, after a failure, or because they were detached.

use bytes::BytesMut;

use super::{HandOn, Input, Intake, Order, Supply};
use crate::event::StreamEvent;
use crate::port::Port;
use crate::record::Run;
use crate::shared::{OnDetached, Shared};

impl Intake {
    /// Detaches an input when it is between two records; an input without framing at once. Returns the
    /// callback if there is no such input, or if it is being detached already.
    pub(crate) fn detach(&mut self, port: Port, on_detached: OnDetached) -> Result<(), OnDetached> {
        let place = self.place_of(port).filter(|place| self.inputs[*place].detach.is_none());
        let Some(place) = place else { return Err(on_detached) };
        self.zero_copy.note_change();
        let input = &mut self.inputs[place];
        input.cut();
        input.detach = Some(on_detached);
        self.detaching += 1;
        self.wake(place);
        Ok(())
    }

    /// Removes inputs that are being detached and are between two records. Returns whether anything was done.
    pub(crate) fn remove_detached(&mut self, shared: &mut Shared, hand_on: &mut HandOn<'_>) -> bool {
        if self.detaching == 0 {
            return false; // the usual case; its cost must not grow with the number of inputs
        }
        self.hand_on_ends(shared, hand_on);
        let can_leave = |input: &Input| input.detach.is_some() && input.is_between_records();
        let mut progressed = false;
        if let Order::Tags { merge, .. } = &mut self.order {
            // First all inputs that can leave: another input may wait for the next record of one of them.
            for (place, _) in self.inputs.iter().enumerate().filter(|(_, input)| can_leave(input)) {
                progressed |= !merge.has_ended(place);
                merge.end_input(place);
            }
        }
        let is_done = |intake: &Intake| {
            let nothing_waits = |place: usize| match &intake.order {
                Order::Tags { merge, .. } => merge.is_empty(place),
                _ => true,
            };
            let mut inputs = intake.inputs.iter().enumerate();
            inputs.position(|(place, input)| can_leave(input) && nothing_waits(place))
        };
        while let Some(place) = is_done(self) {
            self.remove(place, shared);
            progressed = true;
        }
        progressed
    }

    /// Hands on the ends of unframed records of inputs that are being detached and have nothing else. Such an
    /// end takes no room, so the input need not wait for outputs.
    fn hand_on_ends(&mut self, shared: &mut Shared, hand_on: &mut HandOn<'_>) {
        let has_only_that = |input: &Input| {
            input.detach.is_some()
                && input.ready.len() == 1
                && input.ready.front().is_some_and(Run::is_only_end)
        };
        while let Some(place) = self.inputs.iter().position(has_only_that)
            && let Some(end) = self.inputs[place].ready.pop_front()
        {
            self.hand_on(end, shared, hand_on);
        }
    }

    /// Removes one input that is being detached. Returns whether there was one.
    pub(crate) fn give_one_back(&mut self, shared: &mut Shared) -> bool {
        let place = self.inputs.iter().position(|input| input.detach.is_some());
        place.inspect(|place| self.remove(*place, shared)).is_some()
    }

    /// Handles the end of the input at `place`. If the stream fails within a record whose beginning outputs
    /// already have, nothing may follow the record, because outputs would take it for the rest of the record.
    pub(super) fn end(&mut self, place: usize, shared: &mut Shared) {
        let is_cut = shared.is_failing() && self.inputs[place].is_within_record();
        self.remove(place, shared);
        while is_cut && !self.inputs.is_empty() {
            self.remove(0, shared);
        }
    }

    /// Removes an input: a detached input is returned by its callback, any other is closed.
    pub(crate) fn remove(&mut self, place: usize, shared: &mut Shared) {
        let input = self.inputs.remove(place);
        self.zero_copy.note_change();
        self.seen = self.seen.filter(|(port, _)| *port != input.port);
        self.detaching -= usize::from(input.detach.is_some());
        self.has_input_ended |= input.supply == Supply::Ended || input.detach.is_some();
        self.counts.malformed = self.counts.malformed + input.malformed;
        // Bytes that were read and not handed on, including whole records if the stream ends before the input
        // could leave.
        let mut unused = BytesMut::new();
        let mut keep = |run: &Run<BytesMut>| unused.extend_from_slice(&run.bytes);
        match &mut self.order {
            Order::Turns(turns) => turns.removed(place),
            Order::Tags { merge, .. } => merge.remove_input(place).for_each(|run| keep(&run)),
            Order::Arrival(arrivals) => arrivals.removed(input.port),
            Order::Shares(_) => {}
            Order::Join(join) => join.remove(input.port, input.detach.is_some()),
        }
        input.ready.iter().for_each(keep);
        shared.unwatch(&input.object);
        shared.may_zero_copy = true; // the obstacle to zero-copy may be removed
        shared.tell(StreamEvent::InputGone { port: input.port, name: input.object.name.clone() });
        let Input { mut object, splitter, buffer, detach, .. } = input;
        unused.unsplit(buffer);
        if detach.is_some() && !object.has_records() {
            self.counts.returned_bytes += unused.len() as u64;
            object.put_back(unused);
        } else {
            self.counts.dropped_bytes += unused.len() as u64;
        }
        shared.deferred_drops.push(Box::new(splitter));
        shared.hand_over(object, detach);
    }
}
