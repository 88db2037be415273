//! How inputs and outputs leave a stream: detached, at their end, or because they failed or did not keep up.

use super::{Input, OnDetached, Order, Output, Port, Stream, StreamError, StreamEvent};
use crate::object::ObjectError;
use crate::pattern::Spread;

impl Stream {
    /// An output failed: the stream goes on without it or ends.
    pub(super) fn output_failed(&mut self, place: usize, error: ObjectError) -> Result<(), StreamError> {
        if !self.settings.survives_outputs {
            return Err(error.into());
        }
        let is_leaving = place >= self.outputs.len();
        let mut output = if is_leaving {
            self.leaving.remove(place - self.outputs.len())
        } else {
            self.outputs.remove(place)
        };
        Stream::release(self.watch.as_ref(), &output.object);
        let dropped = output.give_up();
        self.tell(StreamEvent::OutputFailed { port: output.port, error: error.to_string(), dropped });
        if is_leaving {
            return Ok(());
        }
        self.forget_output(place, output.within);
        if self.outputs.is_empty() { Err(StreamError::NoOutput(error.to_string())) } else { Ok(()) }
    }

    /// Gives back outputs that have sent what they had.
    pub(super) fn let_leave(&mut self) {
        while let Some(place) = self.leaving.iter().position(Output::is_idle) {
            let output = self.leaving.remove(place);
            Stream::release(self.watch.as_ref(), &output.object);
            self.tell(StreamEvent::OutputGone { port: output.port, name: output.object.name.clone() });
            if let Some(on_detached) = output.detach {
                on_detached(output.object);
            }
        }
    }

    /// An output did not keep up.
    pub(super) fn disconnect(&mut self, place: usize) -> Result<(), StreamError> {
        let mut output = self.outputs.remove(place);
        let dropped = output.give_up();
        Stream::release(self.watch.as_ref(), &output.object);
        let name = output.object.name.clone();
        self.tell(StreamEvent::OutputDisconnected { port: output.port, name: name.clone(), dropped });
        self.forget_output(place, output.within);
        if self.outputs.is_empty() {
            return Err(StreamError::NoOutput(format!("{name} did not keep up")));
        }
        if let Some(on_detached) = output.detach {
            on_detached(output.object);
        }
        Ok(())
    }

    /// The output at `place` is gone. The rest of a record that it alone had the beginning of is of no use to another.
    pub(super) fn forget_output(&mut self, place: usize, within: bool) {
        self.spread.removed(place);
        self.skipping |= within && !matches!(self.spread, Spread::Mirror | Spread::Bytes { .. });
    }

    /// The output gets nothing more.
    pub(super) fn move_out(&mut self, place: usize) {
        let output = self.outputs.remove(place);
        self.spread.removed(place);
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
        let Some(place) = place else { return false };
        self.outputs[place].detach = Some(Box::new(on_detached) as OnDetached);
        if !self.outputs[place].within || self.is_within_endless() {
            self.move_out(place);
        }
        true
    }

    /// The input at `place` is done with: whoever detached it gets it back, else it is closed.
    pub(super) fn remove_input(&mut self, place: usize) {
        let mut input = self.inputs.remove(place);
        self.counts.bytes_dropped += input.malformed.bytes;
        match &mut self.order {
            Order::Turns(turns) => turns.removed(place),
            Order::Tags { merge, .. } => merge.remove_input(place),
            Order::Arrival { .. } | Order::Shares(_) => {}
        }
        Stream::release(self.watch.as_ref(), &input.object);
        self.tell(StreamEvent::InputGone { port: input.port, name: input.object.name.clone() });
        if let Some(on_detached) = input.detach.take() {
            self.counts.bytes_returned += input.buffer.len() as u64;
            input.object.put_back(input.buffer);
            on_detached(input.object);
        }
    }

    /// Detaches inputs that are to be and are between two records.
    pub(super) fn let_inputs_leave(&mut self) -> bool {
        let can_leave = |input: &Input| input.detach.is_some() && input.is_between_records();
        let mut removed = false;
        while let Some(place) = self.inputs.iter().position(can_leave) {
            if let Order::Tags { merge, .. } = &mut self.order {
                merge.end_input(place);
                if !merge.is_empty(place) {
                    return removed;
                }
            }
            self.remove_input(place);
            removed = true;
        }
        removed
    }

    /// Detaches an input when it is between two records, and gives the object back, with what was read from it and is not used, also if
    /// the stream ends before. A stream of bytes without framing has no records to keep whole: there that is at once. False if there
    /// is no such input.
    pub fn detach_input(
        &mut self,
        port: Port,
        on_detached: impl FnOnce(crate::Object) + Send + 'static,
    ) -> bool {
        let input = self.inputs.iter_mut().find(|input| input.port == port && input.detach.is_none());
        let Some(input) = input else { return false };
        input.cut();
        input.detach = Some(Box::new(on_detached) as OnDetached);
        true
    }

    /// Whether a stream of bytes without framing goes by, which has no place between two records.
    pub(super) fn is_within_endless(&self) -> bool {
        self.inputs.iter().any(|input| input.is_endless() && !input.splitter.at_boundary())
    }
}
