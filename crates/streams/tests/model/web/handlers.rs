//! Handlers that are added to a running stream, replaced and removed.

use wirepath_streams::{HandlerChangeError, HandlerId, Port, Trust};

use super::{OUTLETS, Web};
use crate::mask::Mask;
use crate::observer::{self, Seen};

/// A handler that was added while the stream ran.
pub(super) struct Watcher {
    /// Port of the handler's output; None if it is a handler of the stream.
    pub(super) port: Option<Port>,
    pub(super) id: HandlerId,
    pub(super) seen: Seen,
    /// The handler is in force only below this trust; None if it always is.
    pub(super) below: Option<Trust>,
    /// Times in which the handler is in force.
    pub(super) spans: Vec<Span>,
    /// The handler is to be removed.
    pub(super) is_leaving: bool,
}

/// A time in which a handler is in force.
pub(super) struct Span {
    /// Number of records of each feed before; later records reach the handler.
    pub(super) before: Vec<u32>,
    pub(super) is_over: bool,
}

impl Web<'_> {
    pub(super) fn add_handler(&mut self) {
        if !self.carrier.listens() {
            return;
        }
        let (handler, seen) = observer::any(Mask::Payload, &mut self.dice, &mut self.tally);
        if let Some(id) = self.carrier.ask(move |stream| stream.add_handler(handler)) {
            self.watch(None, id, seen, None);
            self.tally.note("operation: add a handler");
        }
    }

    pub(super) fn add_output_handler(&mut self) {
        let place = self.dice.below(OUTLETS);
        let Some(port) = self.port_of(place) else { return };
        let (handler, seen) = observer::any(Mask::Payload, &mut self.dice, &mut self.tally);
        let added = self.carrier.ask(move |stream| stream.add_output_handler(port, handler));
        self.outlets[place].is_gone |= added == Some(None);
        if let Some(Some(id)) = added {
            self.watch(Some(port), id, seen, None);
            self.tally.note("operation: add a handler of an output");
        }
    }

    pub(super) fn replace_handler(&mut self) {
        let Some(place) = self.any_watcher() else { return };
        let Watcher { port, id, seen, .. } = &self.watchers[place];
        let (port, id, seen) = (*port, *id, seen.clone());
        let (handler, number) = observer::successor(&seen, &mut self.dice, &mut self.tally);
        let replaced = self.carrier.ask(move |stream| {
            stream.replace_handler(id, handler, move |old| seen.note_removed(&old, Some(number)))
        });
        if self.is_accepted(port, replaced) {
            self.tally.note("operation: replace a handler");
        }
    }

    pub(super) fn remove_handler(&mut self) {
        let Some(place) = self.any_watcher() else { return };
        let Watcher { port, id, seen, .. } = &self.watchers[place];
        let (port, id, seen) = (*port, *id, seen.clone());
        let removed = self
            .carrier
            .ask(move |stream| stream.remove_handler(id, move |handler| seen.note_removed(&handler, None)));
        if self.is_accepted(port, removed) {
            let watcher = &mut self.watchers[place];
            watcher.is_leaving = true;
            watcher.spans.iter_mut().for_each(|span| span.is_over = true);
            self.tally.note("operation: remove a handler");
        }
    }

    /// Notes an added handler, and that it is in force from the next record on.
    pub(super) fn watch(&mut self, port: Option<Port>, id: HandlerId, seen: Seen, below: Option<Trust>) {
        let spans = vec![Span { before: self.records_of_feeds(), is_over: false }];
        self.watchers.push(Watcher { port, id, seen, below, spans, is_leaving: false });
    }

    pub(super) fn records_of_feeds(&self) -> Vec<u32> {
        self.feeds.iter().map(|feed| feed.records).collect()
    }

    /// Place of a handler that may be changed now.
    fn any_watcher(&mut self) -> Option<usize> {
        if self.watchers.is_empty() || !self.carrier.listens() {
            return None;
        }
        let place = self.dice.below(self.watchers.len());
        let Watcher { port, is_leaving, .. } = self.watchers[place];
        let has_left = |port| self.outlets.iter().any(|outlet| outlet.port == port && outlet.has_left);
        (!is_leaving && !port.is_some_and(has_left)).then_some(place)
    }

    /// Returns whether a change of a handler was accepted. Only a handler of an output that is gone is
    /// missing.
    fn is_accepted(&mut self, port: Option<Port>, changed: Option<Result<(), HandlerChangeError>>) -> bool {
        match changed {
            Some(Err(HandlerChangeError::Missing(id))) => {
                let mut outlets = self.outlets.iter_mut();
                let of = outlets.find(|outlet| port == Some(outlet.port));
                of.unwrap_or_else(|| panic!("handler {id} is missing")).is_gone = true;
            }
            Some(Err(error @ HandlerChangeError::TooLong(_))) => panic!("{error}"),
            Some(Ok(()) | Err(HandlerChangeError::Busy(_))) | None => {}
        }
        matches!(changed, Some(Ok(())))
    }
}
