//! Detaching inputs and outputs while a stream goes on, and giving their objects back.

use bytes::BytesMut;

use super::{Input, OnDetached, Order, Output, Port, Stream, StreamEvent, Supply};
use crate::object::Object;
use crate::record::Run;
use wirepath_engine::catch_panic;

impl Stream {
    /// Detaches an output after the record that it is given, when all that waits for it has left, and gives the object back, also if
    /// the stream ends before. Of a stream of bytes without framing it gets nothing more from now on. False if there is no such
    /// output.
    pub fn detach_output(
        &mut self,
        port: Port,
        on_detached: impl FnOnce(crate::Object) + Send + 'static,
    ) -> bool {
        let place = self.outputs.iter().position(|output| output.port == port && output.detach.is_none());
        let Some(place) = place else { return self.detach_expected(port, false, Box::new(on_detached)) };
        self.outputs[place].detach = Some(Box::new(on_detached) as OnDetached);
        if !self.outputs[place].within || self.is_within_endless() {
            self.move_out(place);
        }
        true
    }

    /// The output gets nothing more.
    pub(super) fn move_out(&mut self, place: usize) {
        let mut output = self.outputs.remove(place);
        output.outbox.end_record();
        self.spread.removed(place, output.port.0);
        self.leaving.push(output);
    }

    /// Whether a stream of bytes without framing goes by, which has no place between two records.
    pub(super) fn is_within_endless(&self) -> bool {
        self.inputs.iter().any(|input| input.is_endless() && !input.splitter.at_boundary())
    }

    /// Detaches an input when it is between two records, and gives the object back, with what was read from it and is not used, also if
    /// the stream ends before. A stream of bytes without framing has no records to keep whole: there that is at once. False if there
    /// is no such input.
    pub fn detach_input(
        &mut self,
        port: Port,
        on_detached: impl FnOnce(crate::Object) + Send + 'static,
    ) -> bool {
        let place = self.place_of_input(port).filter(|place| self.inputs[*place].detach.is_none());
        let Some(place) = place else { return self.detach_expected(port, true, Box::new(on_detached)) };
        self.inputs_unchanged = false;
        let input = &mut self.inputs[place];
        input.cut();
        input.detach = Some(Box::new(on_detached) as OnDetached);
        self.detaching += 1;
        self.wake_input(place);
        true
    }

    /// Detaches inputs that are to be and are between two records.
    pub(super) fn let_inputs_leave(&mut self) -> bool {
        if self.detaching == 0 {
            return false; // the usual case, which must not cost more with many inputs
        }
        self.hand_on_ends();
        let can_leave = |input: &Input| input.detach.is_some() && input.is_between_records();
        let mut left = false;
        if let Order::Tags { merge, .. } = &mut self.order {
            // All that can leave, first: what one waits for may be the next record of another.
            for (place, _) in self.inputs.iter().enumerate().filter(|(_, input)| can_leave(input)) {
                left |= !merge.has_ended(place);
                merge.end_input(place);
            }
        }
        let is_done = |stream: &Stream| {
            let nothing_waits = |place: usize| match &stream.order {
                Order::Tags { merge, .. } => merge.is_empty(place),
                _ => true,
            };
            let mut inputs = stream.inputs.iter().enumerate();
            inputs.position(|(place, input)| can_leave(input) && nothing_waits(place))
        };
        while let Some(place) = is_done(self) {
            self.remove_input(place);
            left = true;
        }
        left
    }

    /// Hands on the end of a record without end, which takes no room, of inputs that are to be detached and have nothing else: they
    /// need not wait until outputs have room, or until there is one.
    fn hand_on_ends(&mut self) {
        let has_only_that = |input: &Input| {
            input.detach.is_some()
                && input.ready.len() == 1
                && input.ready.front().is_some_and(Run::is_only_end)
        };
        while let Some(place) = self.inputs.iter().position(has_only_that)
            && let Some(end) = self.inputs[place].ready.pop_front()
        {
            self.handle(end);
        }
    }

    /// The input at `place` is done with: whoever detached it gets it back, else it is closed.
    pub(super) fn remove_input(&mut self, place: usize) {
        let input = self.inputs.remove(place);
        self.inputs_unchanged = false;
        self.detaching -= usize::from(input.detach.is_some());
        self.has_input_ended |= input.supply == Supply::Ended || input.detach.is_some();
        self.counts.malformed = self.counts.malformed + input.malformed;
        // What was read and not handed on. Where the stream ends before the input could leave, that can be whole records.
        let mut unused = BytesMut::new();
        let mut keep = |run: &Run| unused.extend_from_slice(&run.bytes);
        match &mut self.order {
            Order::Turns(turns) => turns.removed(place),
            Order::Tags { merge, .. } => merge.remove_input(place).for_each(|run| keep(&run)),
            Order::Arrival(arrivals) => arrivals.removed(input.port),
            Order::Shares(_) => {}
        }
        input.ready.iter().for_each(keep);
        Stream::release(self.watcher.as_ref(), &input.object);
        self.settings.moves_unseen = true; // what kept others from it may be gone
        self.tell(StreamEvent::InputGone { port: input.port, name: input.object.name.clone() });
        let Input { mut object, splitter, buffer, detach, .. } = input;
        unused.unsplit(buffer);
        if detach.is_some() && !object.has_records() {
            self.counts.bytes_returned += unused.len() as u64;
            object.put_back(unused);
        } else {
            self.counts.bytes_dropped += unused.len() as u64;
        }
        self.remains.push(Box::new(splitter));
        self.hand_over(object, detach);
    }

    /// Gives an object to whoever detached it, or closes it.
    pub(super) fn hand_over(&mut self, mut object: Object, detach: Option<OnDetached>) {
        match detach {
            Some(on_detached) => {
                object.forget_told();
                on_detached(object);
            }
            None => {
                object.close_connection();
                self.remains.push(Box::new(object));
            }
        }
    }

    /// The stream is over: whoever waits for an object that was to be detached gets it now.
    pub(crate) fn give_back(&mut self) {
        // Callbacks are others' code.
        while catch_panic(|| self.give_one_back()).unwrap_or_else(|words| {
            tracing::error!(words, "a callback for an object that was detached panicked");
            true
        }) {}
    }

    /// Answers whether there was one.
    fn give_one_back(&mut self) -> bool {
        if let Some(place) = self.inputs.iter().position(|input| input.detach.is_some()) {
            self.remove_input(place);
            return true;
        }
        let is_waiting = |output: &Output| output.detach.is_some();
        let mut output = if let Some(place) = self.outputs.iter().position(is_waiting) {
            self.outputs.remove(place)
        } else if let Some(place) = self.leaving.iter().position(is_waiting) {
            self.leaving.remove(place)
        } else {
            return false;
        };
        output.give_up();
        if output.busy {
            // What is being written now may still be written: whoever goes on with the file does so behind it.
            output.object.note_written(output.storing);
        }
        self.counts.gone_outputs.detached += 1;
        self.part_with(output, "its stream ended before it was detached".to_owned());
        true
    }
}
