//! Changes of a running stream: more handlers, and other options of an output.
//!
//! Order, pattern and other settings of the builder are fixed: records that wait for a turn, for other shares
//! or for the rest of a stripe would have no place under others.

use super::Stream;
use super::build::longest_whole;
use crate::chain::Look;
use crate::framing::LONGEST;
use crate::handler::Handler;
use crate::outbox::WhenFull;
use crate::port::Port;

impl Stream {
    /// Adds a handler, behind the others (`addstreamhandler`). It sees records that reach it from now on,
    /// from their beginning, and nothing of what has passed the others already and waits for outputs. If it
    /// takes only whole records, inputs are divided so from their next record on. A stream of bytes without
    /// framing has no other record: there it sees what is read from now on, by pieces or as one record. Bytes
    /// of the zero-copy route leave first, and are not seen.
    pub fn add_handler(&mut self, handler: Handler) {
        self.meet_handler(&handler);
        if self.intake.is_within_unframed() {
            self.chain.push(handler);
        } else {
            self.chain.push_for_next(handler);
        }
        self.note_handler();
    }

    /// Adds a handler of an output, behind its others, under the rules of [`Stream::add_handler`]: it sees
    /// nothing of what waits for the output. Returns false if there is no such output.
    pub fn add_output_handler(&mut self, port: Port, handler: Handler) -> bool {
        if let Some(options) = self.listening.output_options(port) {
            options.handlers.push(handler);
            return true;
        }
        if self.outputs.get_mut(port).is_none() {
            return false;
        }
        self.meet_handler(&handler);
        let is_divided = self.spread.divides_bytes() || !self.intake.is_within_unframed();
        if let Some(output) = self.outputs.get_mut(port) {
            if is_divided { output.chain.push_for_next(handler) } else { output.chain.push(handler) }
        }
        self.note_handler();
        true
    }

    /// Changes the rule and limit of an output's outbox (`setstreamoption`; see
    /// [`OutputOptions`](crate::OutputOptions)), from the next record on. What waits already is dropped only
    /// by the new rule, when more comes. If records are to be dropped, inputs are divided into whole ones
    /// from their next on; until then the rest of a current one in pieces is waited for as before, for
    /// nothing would bound it. Returns false if there is no such output.
    pub fn set_output_options(&mut self, port: Port, when_full: WhenFull, waiting_bytes: usize) -> bool {
        if let Some(options) = self.listening.output_options(port) {
            (options.when_full, options.waiting_bytes) = (when_full, waiting_bytes);
            return true;
        }
        if self.outputs.get_mut(port).is_none() {
            return false;
        }
        if when_full.drops_records() {
            self.intake.need_whole(LONGEST);
        }
        let goes_by = self.intake.is_within_record();
        let Some(output) = self.outputs.get_mut(port) else { return false };
        if when_full.drops_records() && output.within_record && goes_by {
            output.outbox.limit_later_to(waiting_bytes, when_full);
        } else {
            output.outbox.limit_to(waiting_bytes, when_full);
        }
        true
    }

    fn meet_handler(&mut self, handler: &Handler) {
        if let Some(limit) = longest_whole(std::iter::once(handler)) {
            self.intake.need_whole(limit);
        }
    }

    fn note_handler(&mut self) {
        self.intake.set_look(self.chain.look_kind().unwrap_or(Look::Nothing));
        self.drop_refused_records();
        self.outputs.put_pipes_away();
    }
}
