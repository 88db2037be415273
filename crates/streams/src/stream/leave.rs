//! How outputs leave a stream: when they have sent what they had, or because they failed or did not keep up; and inputs that fail.

use rustix::io::Errno;

use super::{EndedOutput, Output, Port, Remains, Stream, StreamError, StreamEvent};
use crate::object::ObjectError;
use crate::outbox::Dropped;
use crate::pattern::Spread;

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
            // What the stream fails with was first.
            Some(why) => Err(self.failing.take().unwrap_or(StreamError::NoOutput(why))),
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

    /// Lets go of outputs that leave and take nothing.
    fn give_up_stuck(&mut self, now_us: u64) {
        let stall_us = self.settings.stall_us;
        let is_stuck = |output: &mut Output| output.is_stuck(stall_us, now_us);
        while let Some(place) = self.leaving.iter_mut().position(is_stuck) {
            let error = self.leaving[place].object.error("sending", Errno::TIMEDOUT);
            self.lose_output(self.outputs.len() + place, &error);
        }
    }

    /// An input failed: the stream goes on without it, when what was read of it before has gone, or [winds up](Stream::fail).
    pub(super) fn input_failed(&mut self, place: usize, error: StreamError) -> Result<(), StreamError> {
        if !self.settings.survives_inputs {
            return self.fail(error);
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
    pub(super) fn part_with(&mut self, output: Output, why: String) {
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
