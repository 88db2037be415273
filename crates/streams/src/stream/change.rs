//! Changing what happens to records while a stream runs: more handlers, and other options of an output.
//!
//! The order of inputs, the pattern of outputs and what else a builder says of all of them are fixed: who waits for its turn, for other
//! shares or for the rest of a stripe does so by them, and would have no place under others.

use std::slice;

use super::build::longest_whole;
use super::{Port, Stream};
use crate::framing::LONGEST;
use crate::handler::Handler;
use crate::outbox::WhenFull;
use crate::pattern::Spread;

impl Stream {
    /// One more handler, behind the others (`addstreamhandler`). It sees records that reach it from now on, from their beginning: the
    /// rest of one that goes by passes it, and so does what the others have seen already and waits for outputs. If it takes only whole
    /// records, inputs are divided so from their next record on. A stream of bytes without framing has no other record: there it sees
    /// what is read from now on, by pieces or as one record. What nobody looked at until now leaves first, and is not seen.
    ///
    /// A stream that has come to its end has nothing to show it.
    pub fn add_handler(&mut self, handler: Handler) {
        self.meet_handler(&handler);
        if self.is_within_endless() {
            self.chain.push(handler);
        } else {
            self.chain.push_for_next(handler);
        }
        self.have_handler();
    }

    /// One more handler of an output, behind the others that it has, under the rules of [`Stream::add_handler`]: it sees what the output
    /// is given from its next record on, and nothing of what waits for it. False if there is no such output.
    pub fn add_output_handler(&mut self, port: Port, handler: Handler) -> bool {
        if let Some(options) = self.expected_output(port) {
            options.handlers.push(handler);
            return true;
        }
        let Some(place) = self.place_of_output(port) else { return false };
        self.meet_handler(&handler);
        let is_divided = matches!(self.spread, Spread::Bytes { .. }) || !self.is_within_endless();
        let chain = &mut self.outputs[place].chain;
        if is_divided {
            chain.push_for_next(handler);
        } else {
            chain.push(handler);
        }
        self.have_handler();
        true
    }

    /// Changes what happens when an output takes nothing, and how many bytes wait for it at most (`setstreamoption`; see
    /// [`OutputOptions`](crate::OutputOptions)), from the next record on. What waits already is dropped only as the new rule says, when
    /// more comes. If records are to be dropped, inputs are divided into whole ones from their next on; until then the rest of one that
    /// goes by in pieces is waited for as before, for nobody would bound what waits of it. False if there is no such output.
    pub fn set_output_options(&mut self, port: Port, when_full: WhenFull, waiting_bytes: usize) -> bool {
        if let Some(options) = self.expected_output(port) {
            (options.when_full, options.waiting_bytes) = (when_full, waiting_bytes);
            return true;
        }
        let Some(place) = self.place_of_output(port) else { return false };
        if when_full.drops_records() {
            self.need_whole(LONGEST);
        }
        let goes_by = self.inputs.iter().any(|input| !input.splitter.at_boundary());
        let output = &mut self.outputs[place];
        if when_full.drops_records() && output.within && goes_by {
            output.outbox.limit_later_to(waiting_bytes, when_full);
        } else {
            output.outbox.limit_to(waiting_bytes, when_full);
        }
        true
    }

    /// The place of an output that gets more.
    fn place_of_output(&self, port: Port) -> Option<usize> {
        self.outputs.iter().position(|output| output.port == port && output.detach.is_none())
    }

    fn meet_handler(&mut self, handler: &Handler) {
        if let Some(limit) = longest_whole(slice::from_ref(handler)) {
            self.need_whole(limit);
        }
    }

    /// A handler has come.
    fn have_handler(&mut self) {
        if self.settings.takes_datagrams {
            self.chain.forgive();
            self.outputs.iter_mut().for_each(|output| output.chain.forgive());
        }
        self.put_pipes_away();
    }
}
