//! Changes of a running stream: options of its outputs.

use wirepath_streams::{Port, WhenFull};

use super::{OUTLETS, Web};
use crate::dice::Dice;
use crate::options::{checked, set_limits};

impl Web<'_> {
    /// Changes the options of an output. The first output never drops records, because the others are
    /// compared with it.
    pub(super) fn change_options(&mut self) {
        let (place, waiting_bytes) = (self.dice.below(OUTLETS), 1 + self.dice.below(5000));
        let when_full = if place == 0 { WhenFull::Block } else { any_rule(&mut self.dice) };
        let by_key = self.dice.one_in(2);
        let Some(port) = self.port_of(place) else { return };
        let set = move |stream: &mut _| set_limits(stream, port, (when_full, waiting_bytes), by_key);
        let is_there = checked(self.carrier.ask(set));
        let outlet = &mut self.outlets[place];
        outlet.is_gone |= is_there == Some(false);
        if is_there == Some(true) {
            outlet.sink.note_rule(when_full);
            self.tally.note("operation: set the options of an output");
            self.tally.add("operation: set the options of an output by their keys", u64::from(by_key));
        }
    }

    /// Port of an output that was not detached, if the stream can be changed.
    pub(super) fn port_of(&self, place: usize) -> Option<Port> {
        let outlet = self.outlets.get(place)?;
        (self.carrier.listens() && !outlet.has_left).then_some(outlet.port)
    }
}

pub(super) fn any_rule(dice: &mut Dice) -> WhenFull {
    WhenFull::ALL[dice.below(WhenFull::ALL.len())]
}
