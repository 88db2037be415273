//! How inputs and outputs leave a stream: detached, at their end, or because they failed or did not keep up.

use bytes::BytesMut;
use rustix::io::Errno;

use super::{EndedOutput, Input, OnDetached, Order, Output, Port, Remains, Stream, StreamError, StreamEvent};
use crate::object::{Object, ObjectError};
use crate::outbox::Dropped;
use crate::panics::caught;
use crate::pattern::Spread;
use crate::record::Run;

/// Most outputs that are gone and remembered; the first are forgotten first.
const ENDED: usize = 64;

impl Stream {
    /// An output failed: the stream goes on without it or ends.
    pub(super) fn output_failed(&mut self, place: usize, error: ObjectError) -> Result<(), StreamError> {
        if !self.settings.survives_outputs {
            return Err(error.into());
        }
        self.lose_output(place, &error);
        Ok(())
    }

    /// Goes on without an output that failed.
    fn lose_output(&mut self, place: usize, error: &ObjectError) {
        let is_leaving = place >= self.outputs.len();
        let mut output = if is_leaving {
            self.leaving.remove(place - self.outputs.len())
        } else {
            self.outputs.remove(place)
        };
        let (port, dropped, within) = (output.port, output.give_up(), output.within);
        self.counts.gone_outputs.failed += 1;
        self.tell(StreamEvent::OutputFailed { port, error: error.to_string(), dropped });
        self.part_with(output, error.to_string());
        if is_leaving {
            return;
        }
        self.forget_output(place, port, within);
        if self.outputs.is_empty() {
            self.no_output = Some(error.to_string());
        }
    }

    /// Ends the stream if its last output failed or did not keep up, when those that leave have sent what they had, for they have failed
    /// in nothing; unless they take nothing for too long. Who is still expected is waited for as long as there is something to give.
    pub(super) fn check_outputs(&mut self, now_us: u64) -> Result<(), StreamError> {
        self.let_leave();
        if self.waits_for_leaving() {
            self.give_up_stuck(now_us);
        }
        let may_go_on = !self.leaving.is_empty() || self.expects_output() && !self.is_used_up();
        match self.no_output.take_if(|_| !may_go_on) {
            Some(why) => Err(StreamError::NoOutput(why)),
            None => Ok(()),
        }
    }

    /// Whether there is nothing to do but to let those send what they have that leave.
    pub(crate) fn waits_for_leaving(&self) -> bool {
        let has_nothing_else =
            || self.has_no_input() && self.pending.is_empty() && self.outputs.iter().all(Output::is_idle);
        let has_no_output = || self.no_output.is_some() && !self.expects_output();
        !self.leaving.is_empty() && (has_no_output() || has_nothing_else())
    }

    /// Lets go of outputs that leave and take nothing. For what is being written to a file its storage answers.
    fn give_up_stuck(&mut self, now_us: u64) {
        let stall_us = self.settings.stall_us;
        let is_stuck = |output: &mut Output| {
            let taken = output.bytes + output.lost_bytes;
            !output.busy && output.standstill.of(taken, now_us) > stall_us
        };
        while let Some(place) = self.leaving.iter_mut().position(is_stuck) {
            let error = self.leaving[place].object.error("sending", Errno::TIMEDOUT);
            self.lose_output(self.outputs.len() + place, &error);
        }
    }

    /// An input failed: the stream goes on without it, when what was read of it before has gone, or ends.
    pub(super) fn input_failed(&mut self, place: usize, error: StreamError) -> Result<(), StreamError> {
        if !self.settings.survives_inputs {
            return Err(error);
        }
        self.inputs_unchanged = false;
        let input = &mut self.inputs[place];
        self.counts.bytes_dropped += input.kept() as u64;
        input.buffer.clear();
        input.ready.clear();
        (input.at_end, input.has_failed) = (true, true);
        let port = input.port;
        self.wake_input(place);
        self.tell(StreamEvent::InputFailed { port, error: error.to_string() });
        Ok(())
    }

    /// Gives back outputs that have sent what they had.
    pub(super) fn let_leave(&mut self) {
        while let Some(place) = self.leaving.iter().position(Output::is_idle) {
            let output = self.leaving.remove(place);
            let (port, name, dropped) = (output.port, output.object.name.clone(), output.outbox.dropped());
            let gone = &mut self.counts.gone_outputs;
            let (count, event, why) = if output.is_disconnected {
                let event = StreamEvent::OutputDisconnected { port, name, dropped };
                (&mut gone.disconnected, event, "it did not keep up")
            } else {
                (&mut gone.detached, StreamEvent::OutputGone { port, name }, "it was detached")
            };
            *count += 1;
            self.tell(event);
            self.part_with(output, why.to_owned());
        }
    }

    /// An output did not keep up: it gets nothing more, and is gone when nobody writes for it any more.
    pub(super) fn disconnect(&mut self, place: usize) {
        let mut output = self.outputs.remove(place);
        let (port, within, name) = (output.port, output.within, output.object.name.clone());
        output.outbox.drop_all();
        output.outbox.note_lost(output.chain.give_up());
        // What moved unseen before may still wait there.
        if let Some(pipe) = output.pipe.take() {
            output.outbox.note_lost(pipe.held());
            pipe.put_away();
        }
        output.is_disconnected = true;
        self.leaving.push(output);
        self.forget_output(place, port, within);
        if self.outputs.is_empty() {
            self.no_output = Some(format!("{name} did not keep up"));
        }
    }

    /// Counts an output among those that are gone, and gives its object to whoever detached it, or closes it.
    fn part_with(&mut self, output: Output, why: String) {
        Stream::release(self.watch.as_ref(), &output.object);
        self.settings.moves_unseen = true; // what kept others from it may be gone
        if self.ended.len() == ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(output.ended(why));
        let Output { object, chain, detach, .. } = output;
        self.remains.push(Box::new(chain));
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
        while caught(|| self.give_one_back()).unwrap_or_else(|words| {
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

    /// What is to be dropped where that may take its time.
    pub(crate) fn take_remains(&mut self) -> Vec<Remains> {
        std::mem::take(&mut self.remains)
    }

    /// The output at `place` is gone. The rest of a record that it alone had the beginning of is of no use to another.
    pub(super) fn forget_output(&mut self, place: usize, port: Port, within: bool) {
        self.spread.removed(place, port.0);
        self.skipping |= within && !matches!(self.spread, Spread::Mirror | Spread::Bytes { .. });
    }

    /// The output gets nothing more.
    pub(super) fn move_out(&mut self, place: usize) {
        let mut output = self.outputs.remove(place);
        output.outbox.end_record();
        self.spread.removed(place, output.port.0);
        self.leaving.push(output);
    }

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

    /// The input at `place` is done with: whoever detached it gets it back, else it is closed.
    pub(super) fn remove_input(&mut self, place: usize) {
        let input = self.inputs.remove(place);
        self.inputs_unchanged = false;
        self.detaching -= usize::from(input.detach.is_some());
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
        Stream::release(self.watch.as_ref(), &input.object);
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

    /// Detaches inputs that are to be and are between two records.
    pub(super) fn let_inputs_leave(&mut self) -> Result<bool, StreamError> {
        if self.detaching == 0 {
            return Ok(false); // the usual case, which must not cost more with many inputs
        }
        self.hand_on_ends()?;
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
        Ok(left)
    }

    /// Hands on the end of a record without end, which takes no room, of inputs that are to be detached and have nothing else: they
    /// need not wait until outputs have room, or until there is one.
    fn hand_on_ends(&mut self) -> Result<(), StreamError> {
        let has_only_that = |input: &Input| {
            input.detach.is_some()
                && input.ready.len() == 1
                && input.ready.front().is_some_and(Run::is_only_end)
        };
        while let Some(place) = self.inputs.iter().position(has_only_that)
            && let Some(end) = self.inputs[place].ready.pop_front()
        {
            self.handle(end)?;
        }
        Ok(())
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

    /// Whether a stream of bytes without framing goes by, which has no place between two records.
    pub(super) fn is_within_endless(&self) -> bool {
        self.inputs.iter().any(|input| input.is_endless() && !input.splitter.at_boundary())
    }
}

impl Output {
    /// What is remembered of it.
    fn ended(&self, why: String) -> EndedOutput {
        let Dropped { records, bytes } = self.outbox.dropped();
        let beyond = self.beyond() as u64;
        EndedOutput {
            port: self.port,
            name: self.object.name.clone(),
            bytes: self.bytes,
            dropped: Dropped { records, bytes: bytes + beyond },
            lost_bytes: self.lost_bytes,
            icmp_errors: self.object.icmp_errors(),
            why,
        }
    }
}
