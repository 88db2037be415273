//! How outputs leave a stream: when they have sent what they had, or because they failed or did not keep up; and inputs that fail.

use rustix::io::Errno;

use super::{EndedOutput, Output, Port, Remains, Stream, StreamError, StreamEvent, Supply, nth_mut};
use crate::object::ObjectError;
use crate::outbox::Dropped;
use crate::pattern::Spread;

/// Most outputs that are gone and remembered; the first are forgotten first.
const ENDED: usize = 64;

impl Stream {
    /// An output failed: the stream goes on without it or ends. If it is to end for another reason, others still get what is theirs.
    pub(super) fn output_failed(&mut self, place: usize, error: ObjectError) -> Result<(), StreamError> {
        if !self.settings.survives_outputs && self.failing.is_none() {
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
    /// in nothing. Who is still expected is waited for as long as there is something to give.
    pub(super) fn check_outputs(&mut self) -> Result<(), StreamError> {
        self.let_leave();
        if self.no_output.is_none() {
            return Ok(());
        }
        let may_get_more = self.expects_output() && self.failing.is_none() && !self.is_used_up();
        let may_go_on = !self.leaving.is_empty() || may_get_more;
        self.no_output.take_if(|_| !may_go_on).map_or(Ok(()), |why| Err(StreamError::NoOutput(why)))
    }

    /// Whether there is nothing to do but to let those send what they have that leave.
    pub(crate) fn waits_for_leaving(&self) -> bool {
        let has_nothing_else =
            || self.has_no_input() && self.pending.is_empty() && self.outputs.iter().all(Output::is_idle);
        let has_no_output = || self.no_output.is_some() && !self.expects_output();
        !self.leaving.is_empty() && (has_no_output() || has_nothing_else())
    }

    /// Has outputs failed that take nothing for too long, when that is all that is waited for: of a stream that [fails](Stream::fail) any
    /// that have not got what is theirs, else those that leave. Answers whether there were any.
    pub(super) fn give_up_stuck(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let of_all = self.failing.is_some() || self.settings.limits_stalls;
        if now_us < self.look_again_us || !(of_all || self.waits_for_leaving()) {
            return Ok(false);
        }
        self.look_again_us = now_us + self.stall_sample_us(); // what each has on its way takes calls to know
        let mut place = if of_all { 0 } else { self.outputs.len() };
        let (mut progressed, stall_us) = (false, self.settings.stall_us);
        while let Some(output) = nth_mut(&mut self.outputs, &mut self.leaving, place) {
            let has_all = output.is_idle() && !self.settings.limits_stalls;
            if has_all || !output.is_stuck(stall_us, now_us) {
                place += 1;
                continue;
            }
            let error = output.object.error("sending", Errno::TIMEDOUT);
            if self.no_output.is_some() {
                self.lose_output(place, &error); // the stream ends with what became of the others
            } else {
                self.output_failed(place, error)?;
            }
            progressed = true;
        }
        Ok(progressed)
    }

    /// An input failed: the stream goes on without it, when what was read of it before has gone, or [winds up](Stream::fail).
    pub(super) fn input_failed(&mut self, place: usize, error: StreamError) {
        self.inputs_unchanged = false;
        let input = &mut self.inputs[place];
        // What is not divided into records never will be.
        self.counts.bytes_dropped += input.buffer.len() as u64;
        input.buffer.clear();
        input.supply = Supply::Cut;
        let port = input.port;
        self.wake_input(place);
        if !self.settings.survives_inputs {
            return self.fail(error);
        }
        let error = error.to_string();
        self.no_input = Some(error.clone());
        self.tell(StreamEvent::InputFailed { port, error });
    }

    /// Nothing more comes of the input at `place`. If the stream fails within a record of which outputs have the beginning, nothing goes
    /// behind that: it would be taken for the rest.
    pub(super) fn input_is_over(&mut self, place: usize) {
        let is_cut = self.failing.is_some() && self.inputs[place].is_within_record();
        self.remove_input(place);
        while is_cut && !self.inputs.is_empty() {
            self.remove_input(0);
        }
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
    pub(super) fn part_with(&mut self, output: Output, why: String) {
        Stream::release(self.watcher.as_ref(), &output.object);
        self.settings.moves_unseen = true; // what kept others from it may be gone
        if self.ended.len() == ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(output.ended(why));
        let Output { object, chain, detach, .. } = output;
        self.remains.push(Box::new(chain));
        self.hand_over(object, detach);
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
