//! Handlers that are added to a running stream, replaced and removed.

use wirepath_streams::{HandlerChangeError, HandlerId, Port, Stream, StreamStatus};

use super::{OUTLETS, Pour};
use crate::mask::{Mask, TOP_BIT};
use crate::observer::{self, Seen};
use crate::options::set_of_output;
use crate::web::any_trust;

pub(super) struct Watcher {
    /// Place of the handler's output; None if it is a handler of the stream.
    pub(super) place: Option<usize>,
    id: HandlerId,
    pub(super) seen: Seen,
    /// Bytes that had been written before the handler was added.
    pub(super) before: usize,
    /// The handler is to be removed.
    pub(super) is_leaving: bool,
}

impl Watcher {
    pub(super) fn new(place: Option<usize>, id: HandlerId, seen: Seen, before: usize) -> Watcher {
        Watcher { place, id, seen, before, is_leaving: false }
    }

    /// Checks that the handler, of the output with this port, has left the stream, or is still there.
    pub(super) fn check_state(&self, port: Option<Port>, status: &StreamStatus) {
        let of_output = port.map(|port| status.outputs.iter().find(|output| output.port == port));
        let handlers = match of_output {
            None => &status.handlers,
            Some(Some(output)) => &output.handlers,
            Some(None) => return,
        };
        let is_there = handlers.iter().any(|handler| handler.id == self.id);
        assert_eq!(self.seen.is_removed(), self.is_leaving, "a handler was removed, or is still there");
        assert_eq!(is_there, !self.is_leaving, "a handler is in the status, or is not");
    }
}

impl Pour<'_> {
    pub(super) fn add_handler(&mut self) {
        let (handler, seen) = observer::any(self.mask(), &mut self.dice, &mut self.tally);
        if let Some(id) = self.carrier.ask(move |stream| stream.add_handler(handler)) {
            self.watchers.push(Watcher::new(None, id, seen, self.written));
            self.tally.note("operation: add a handler");
        }
    }

    pub(super) fn add_output_handler(&mut self) {
        let place = self.dice.below(OUTLETS);
        let Some(outlet) = self.outlets.get_mut(place).filter(|outlet| !outlet.has_left) else { return };
        let port = outlet.port;
        let (handler, seen) = observer::any(self.mask(), &mut self.dice, &mut self.tally);
        let added = self.carrier.ask(move |stream| stream.add_output_handler(port, handler));
        self.outlets[place].is_gone |= added == Some(None);
        if let Some(Some(id)) = added {
            self.watchers.push(Watcher::new(Some(place), id, seen, self.written));
            self.tally.note("operation: add a handler of an output");
        }
    }

    pub(super) fn replace_handler(&mut self) {
        let Some((number, id, seen)) = self.any_watcher() else { return };
        let (handler, successor) = observer::successor(&seen, &mut self.dice, &mut self.tally);
        let replace = move |stream: &mut Stream| {
            stream.replace_handler(id, handler, move |old| seen.note_removed(&old, Some(successor)))
        };
        if self.change_watcher(number, replace) {
            self.tally.note("operation: replace a handler");
        }
    }

    pub(super) fn remove_handler(&mut self) {
        let Some((number, id, seen)) = self.any_watcher() else { return };
        let remove = move |stream: &mut Stream| {
            stream.remove_handler(id, move |handler| seen.note_removed(&handler, None))
        };
        if self.change_watcher(number, remove) {
            self.watchers[number].is_leaving = true;
            self.tally.note("operation: remove a handler");
        }
    }

    /// Changes the trust in an output, or adds a handler that depends on it.
    pub(super) fn change_trust(&mut self) {
        let (place, trust) = (self.dice.below(OUTLETS), any_trust(&mut self.dice));
        if self.dice.one_in(3) {
            let (handler, _) = observer::any(Mask::Nothing, &mut self.dice, &mut self.tally);
            self.change_output(place, move |stream, port| {
                Ok(stream.add_output_handler_below(port, trust, handler).is_some())
            });
            self.tally.note("operation: add a handler that depends on trust");
        } else if self.dice.one_in(2) {
            let trust = trust.to_string();
            self.change_output(place, move |stream, port| set_of_output(stream, port, "trust", &trust));
            self.tally.note("operation: set the trust in an output by its key");
        } else {
            self.change_output(place, move |stream, port| Ok(stream.set_trust(port, trust)));
            self.tally.note("operation: set the trust in an output");
        }
    }

    /// Bytes that a handler changed on their way to an output; None if there is no such handler.
    pub(super) fn masker_of(&self, place: usize) -> Option<Vec<u8>> {
        let mut maskers = self.watchers.iter().filter(|watcher| watcher.seen.mask != Mask::Nothing);
        let masker = maskers.find(|watcher| watcher.place.is_none_or(|other| other == place))?;
        Some(masker.seen.bytes())
    }

    /// The change that the next handler may make: one handler of a round changes bytes.
    fn mask(&self) -> Mask {
        let is_masked = self.watchers.iter().any(|watcher| watcher.seen.mask != Mask::Nothing);
        if is_masked { Mask::Nothing } else { Mask::TopBits }
    }

    /// A handler that may be changed now.
    fn any_watcher(&mut self) -> Option<(usize, HandlerId, Seen)> {
        if self.watchers.is_empty() {
            return None;
        }
        let number = self.dice.below(self.watchers.len());
        let Watcher { place, id, seen, is_leaving, .. } = &self.watchers[number];
        let has_left = place.is_some_and(|place| self.outlets[place].has_left);
        (!is_leaving && !has_left).then(|| (number, *id, seen.clone()))
    }

    /// Changes a handler; false if the change was not accepted. Only a handler of an output that is gone is
    /// missing.
    fn change_watcher(
        &mut self,
        number: usize,
        change: impl FnOnce(&mut Stream) -> Result<(), HandlerChangeError> + Send + 'static,
    ) -> bool {
        let changed = self.carrier.ask(change);
        if let Some(Err(HandlerChangeError::Missing(id))) = changed {
            let place = self.watchers[number].place.unwrap_or_else(|| panic!("handler {id} is missing"));
            self.outlets[place].is_gone = true;
        }
        changed == Some(Ok(()))
    }
}

/// Bytes without the change of a handler.
pub(super) fn plain(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.iter_mut().for_each(|byte| *byte &= !TOP_BIT);
    bytes
}
