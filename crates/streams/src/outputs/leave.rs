//! Leaving outputs: detached, disconnected or failed; and the last statuses of removed outputs.

use super::{Output, Outputs, Removed};
use crate::error::StreamError;
use crate::event::StreamEvent;
use crate::object::ObjectError;
use crate::port::Port;
use crate::shared::{OnDetached, Shared};

/// Most removed outputs whose status is kept; the oldest are dropped first.
const ENDED: usize = 64;

impl Outputs {
    /// Detaches an output after the current record; for a stream without framing, at once. Returns the
    /// callback if there is no such output, or if it is leaving already.
    pub(crate) fn detach(
        &mut self,
        port: Port,
        on_detached: OnDetached,
        is_unframed: bool,
    ) -> Result<(), OnDetached> {
        let is_it = |output: &Output| output.port == port && output.detach.is_none();
        let Some(place) = self.current.iter().position(is_it) else { return Err(on_detached) };
        let output = &mut self.current[place];
        output.detach = Some(on_detached);
        if !output.within_record || is_unframed {
            self.leave(place);
        }
        Ok(())
    }

    /// Detaches an output that never was current.
    pub(crate) fn detach_unused(&mut self, mut output: Output, on_detached: OnDetached) {
        output.detach = Some(on_detached);
        self.leaving.push(output);
    }

    pub(super) fn leave(&mut self, place: usize) {
        let mut output = self.current.remove(place);
        output.outbox.end_record();
        self.removed.push(Removed { place, port: output.port, within_record: false });
        self.leaving.push(output);
    }

    /// Disconnects an output that did not keep up: it is removed when no storage job writes for it.
    pub(super) fn disconnect(&mut self, place: usize) {
        let mut output = self.current.remove(place);
        output.outbox.drop_all();
        output.outbox.note_lost(output.chain.drop_gathered());
        // The pipe may still hold bytes of the zero-copy route.
        if let Some(pipe) = output.pipe.take() {
            output.outbox.note_lost(pipe.held());
            pipe.put_away();
        }
        output.is_disconnected = true;
        let why = format!("{} did not keep up", output.object.name);
        self.note_removed(place, &output, why);
        self.leaving.push(output);
    }

    fn note_removed(&mut self, place: usize, output: &Output, why: String) {
        let (port, within_record) = (output.port, output.within_record);
        self.removed.push(Removed { place, port, within_record });
        if self.current.is_empty() {
            self.last_gone = Some(why);
        }
    }

    /// Handles the error of an output: the stream continues without it, or ends with the returned error. If
    /// the stream is to end for another reason, other outputs still get their records.
    pub(crate) fn fail(
        &mut self,
        place: usize,
        error: ObjectError,
        shared: &mut Shared,
    ) -> Result<(), StreamError> {
        if !shared.settings.survives_outputs && !shared.is_failing() {
            return Err(error.into());
        }
        self.lose(place, &error, shared);
        Ok(())
    }

    pub(super) fn lose(&mut self, place: usize, error: &ObjectError, shared: &mut Shared) {
        let current = self.current.len();
        let is_current = place < current;
        let mut output =
            if is_current { self.current.remove(place) } else { self.leaving.remove(place - current) };
        let dropped = output.drop_waiting();
        self.gone.failed += 1;
        shared.tell(StreamEvent::OutputFailed { port: output.port, error: error.to_string(), dropped });
        if is_current {
            self.note_removed(place, &output, error.to_string());
        }
        self.end(output, error.to_string(), shared);
    }

    /// Removes leaving outputs that have sent everything.
    pub(crate) fn end_idle(&mut self, shared: &mut Shared) {
        while let Some(place) = self.leaving.iter().position(Output::is_idle) {
            let output = self.leaving.remove(place);
            let (port, name, dropped) = (output.port, output.object.name.clone(), output.outbox.dropped);
            let (event, why) = if output.is_disconnected {
                self.gone.disconnected += 1;
                (StreamEvent::OutputDisconnected { port, name, dropped }, "it did not keep up")
            } else {
                self.gone.detached += 1;
                (StreamEvent::OutputGone { port, name }, "it was detached")
            };
            shared.tell(event);
            self.end(output, why.to_owned(), shared);
        }
    }

    /// Keeps the last status of an output, and returns its object by the callback of the detach, or closes
    /// it.
    fn end(&mut self, output: Output, why: String, shared: &mut Shared) {
        shared.unwatch(&output.object);
        shared.may_zero_copy = true; // the obstacle to zero-copy may be removed
        if self.ended.len() == ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(output.last_status(why));
        let Output { object, chain, detach, .. } = output;
        shared.deferred_drops.push(Box::new(chain));
        shared.hand_over(object, detach);
    }

    /// Removes one output that is being detached. Returns whether there was one.
    pub(crate) fn give_one_back(&mut self, shared: &mut Shared) -> bool {
        let is_waiting = |output: &Output| output.detach.is_some();
        let mut output = if let Some(place) = self.current.iter().position(is_waiting) {
            self.current.remove(place)
        } else if let Some(place) = self.leaving.iter().position(is_waiting) {
            self.leaving.remove(place)
        } else {
            return false;
        };
        output.drop_waiting();
        if output.busy {
            // A running job may still write: the next writer of the file starts after its bytes.
            output.object.note_written(output.storing);
        }
        self.gone.detached += 1;
        self.end(output, "its stream ended before it was detached".to_owned(), shared);
        true
    }
}
