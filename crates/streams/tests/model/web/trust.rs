//! Trust in the peers of outputs, and handlers that are in force only below some trust.

use wirepath_streams::{Port, Stream, Trust};

use super::handlers::{Span, Watcher};
use super::{OUTLETS, Outlet, Web};
use crate::dice::{Dice, Tally};
use crate::mask::Mask;
use crate::observer::{self, Seen};
use crate::options::{checked, set_of_output};

impl Web<'_> {
    /// Changes the trust in an output, or adds a handler that depends on it.
    pub(super) fn change_trust(&mut self) {
        let (place, trust) = (self.any_place(), any_trust(&mut self.dice));
        let Some(port) = self.port_of(place) else { return };
        let is_there = if self.dice.one_in(4) {
            self.add_guard(place, port, trust)
        } else {
            self.set_trust(place, trust)
        };
        self.outlets[place].is_gone |= is_there == Some(false);
    }

    /// Place of an output; mostly of one with a handler that depends on the trust, if there is one.
    fn any_place(&mut self) -> usize {
        let is_guarded = |place: &usize| {
            let Outlet { port, has_left, .. } = self.outlets[*place];
            let is_guard = |watcher: &Watcher| watcher.port == Some(port) && watcher.below.is_some();
            !has_left && self.watchers.iter().any(|watcher| is_guard(watcher) && !watcher.is_leaving)
        };
        let guarded: Vec<usize> = (0..self.outlets.len()).filter(is_guarded).collect();
        if guarded.is_empty() || self.dice.one_in(4) {
            return self.dice.below(OUTLETS);
        }
        guarded[self.dice.below(guarded.len())]
    }

    fn add_guard(&mut self, place: usize, port: Port, below: Trust) -> Option<bool> {
        let (handler, seen) = observer::any(Mask::Payload, &mut self.dice, &mut self.tally);
        let is_in_force = self.outlets[place].trust < below;
        seen.set_in_force(is_in_force);
        let added = self.carrier.ask(move |stream| stream.add_output_handler_below(port, below, handler))?;
        if let Some(id) = added {
            self.watch(Some(port), id, seen, Some(below));
            let watcher = self.watchers.last_mut();
            watcher.into_iter().flat_map(|watcher| &mut watcher.spans).for_each(|span| {
                span.is_over = !is_in_force;
            });
            self.tally.note("operation: add a handler that depends on trust");
        }
        Some(added.is_some())
    }

    fn set_trust(&mut self, place: usize, trust: Trust) -> Option<bool> {
        let (port, by_key) = (self.outlets[place].port, self.dice.one_in(2));
        let guards: Vec<(Seen, bool)> = self
            .watchers
            .iter()
            .filter(|watcher| watcher.port == Some(port))
            .filter_map(|watcher| Some((watcher.seen.clone(), trust < watcher.below?)))
            .collect();
        let is_there = checked(self.carrier.ask(move |stream: &mut Stream| {
            let is_there = if by_key {
                set_of_output(stream, port, "trust", &trust.to_string())?
            } else {
                stream.set_trust(port, trust)
            };
            if is_there {
                guards.iter().for_each(|(seen, is_in_force)| seen.set_in_force(*is_in_force));
            }
            Ok(is_there)
        }))?;
        if is_there {
            self.outlets[place].trust = trust;
            let before = self.records_of_feeds();
            for watcher in self.watchers.iter_mut().filter(|watcher| watcher.port == Some(port)) {
                watcher.note_trust(trust, &before, &mut self.tally);
            }
            self.tally.note("operation: set the trust in an output");
            self.tally.add("operation: set the trust in an output by its key", u64::from(by_key));
        }
        Some(is_there)
    }
}

impl Watcher {
    /// Notes the trust in the peer of the handler's output, and the number of records of each feed before.
    fn note_trust(&mut self, trust: Trust, before: &[u32], tally: &mut Tally) {
        let (Some(below), Some(last)) = (self.below, self.spans.last_mut()) else { return };
        match (trust < below, last.is_over) {
            _ if self.is_leaving => {}
            (true, true) => {
                tally.note("handler: one that came into force");
                self.spans.push(Span { before: before.to_vec(), is_over: false });
            }
            (false, false) => {
                tally.note("handler: one that was suspended");
                last.is_over = true;
            }
            (true, false) | (false, true) => {}
        }
    }
}

pub(crate) fn any_trust(dice: &mut Dice) -> Trust {
    Trust::new(dice.below(101) as u8).unwrap()
}
