//! Changes of a running stream: added handlers, and options of its outputs.

use wirepath_streams::{Port, Trust, WhenFull};

use super::{OUTLETS, Web};
use crate::observer::{self, Seen};

/// A handler that was added while the stream ran.
pub(crate) struct Watcher {
    /// Port of the handler's output; None if it is a handler of the stream.
    pub(crate) port: Option<Port>,
    pub(crate) seen: Seen,
    /// Number of records of each feed before the handler was added; later records reach the handler.
    pub(crate) before: Vec<u32>,
}

impl Web<'_> {
    pub(super) fn add_handler(&mut self) {
        if !self.carrier.listens() {
            return;
        }
        let (handler, seen) = observer::any(&mut self.dice, &mut self.tally);
        self.carrier.ask(move |stream| stream.add_handler(handler));
        self.watch(None, seen);
        self.tally.note("operation: add a handler");
    }

    pub(super) fn add_output_handler(&mut self) {
        let place = self.dice.below(OUTLETS);
        let Some(port) = self.port_of(place) else { return };
        let (handler, seen) = observer::any(&mut self.dice, &mut self.tally);
        let is_there = self.carrier.ask(move |stream| stream.add_output_handler(port, handler).is_some());
        self.outlets[place].is_gone |= is_there == Some(false);
        if is_there == Some(true) {
            self.watch(Some(port), seen);
            self.tally.note("operation: add a handler of an output");
        }
    }

    /// Changes the trust in an output, or adds a handler that depends on it.
    pub(super) fn set_trust(&mut self) {
        let (place, trust) = (self.dice.below(OUTLETS), any_trust(&mut self.dice));
        let Some(port) = self.port_of(place) else { return };
        let is_there = if self.dice.one_in(3) {
            let (handler, seen) = observer::any(&mut self.dice, &mut self.tally);
            self.guards.push(seen);
            self.tally.note("operation: add a handler that depends on trust");
            self.carrier.ask(move |stream| stream.add_output_handler_below(port, trust, handler).is_some())
        } else {
            self.tally.note("operation: set the trust in an output");
            self.carrier.ask(move |stream| stream.set_trust(port, trust))
        };
        self.outlets[place].is_gone |= is_there == Some(false);
    }

    fn watch(&mut self, port: Option<Port>, seen: Seen) {
        let before = self.feeds.iter().map(|feed| feed.records).collect();
        self.watchers.push(Watcher { port, seen, before });
    }

    /// Changes the options of an output. The first output never drops records, because the others are
    /// compared with it.
    pub(super) fn change_options(&mut self) {
        let (place, waiting_bytes) = (self.dice.below(OUTLETS), 1 + self.dice.below(5000));
        let when_full = if place == 0 { WhenFull::Block } else { any_rule(&mut self.dice) };
        let Some(port) = self.port_of(place) else { return };
        let set = move |stream: &mut wirepath_streams::Stream| {
            stream.set_output_options(port, when_full, waiting_bytes)
        };
        let is_there = self.carrier.ask(set);
        let outlet = &mut self.outlets[place];
        outlet.is_gone |= is_there == Some(false);
        if is_there == Some(true) {
            outlet.sink.note_rule(when_full);
            self.tally.note("operation: set the options of an output");
        }
    }

    /// Port of an output that was not detached, if the stream can be changed.
    fn port_of(&self, place: usize) -> Option<Port> {
        let outlet = self.outlets.get(place)?;
        (self.carrier.listens() && !outlet.has_left).then_some(outlet.port)
    }
}

pub(crate) fn any_trust(dice: &mut crate::dice::Dice) -> Trust {
    Trust::new(dice.below(101) as u8).unwrap()
}

pub(super) fn any_rule(dice: &mut crate::dice::Dice) -> WhenFull {
    let rules = [WhenFull::Block, WhenFull::DropNewest, WhenFull::DropOldest, WhenFull::Disconnect];
    rules[dice.below(rules.len())]
}
