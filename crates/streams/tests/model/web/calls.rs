//! Connections to listening ports, and connections that are never made.

use super::{Outlet, Web};

impl Web<'_> {
    /// Connects to a listener that waits, or to one that is connected already; mostly where the stream has to
    /// wait for it.
    pub(super) fn call_one(&mut self) {
        let all = self.feeds.len() + self.outlets.len();
        let missing: Vec<usize> = (0..all).filter(|place| self.has_to_wait_for(*place)).collect();
        let place = if missing.is_empty() || self.dice.one_in(4) {
            self.dice.below(all)
        } else {
            missing[self.dice.below(missing.len())]
        };
        self.call(place);
    }

    /// Returns whether the input or output at `place` waits for a connection; outputs come after inputs.
    /// Detached ones may not listen any more.
    fn is_awaited(&self, place: usize) -> bool {
        match self.feeds.get(place) {
            Some(feed) => feed.source.is_awaited(),
            None => self.outlets[place - self.feeds.len()].is_awaited(),
        }
    }

    /// Connects. As long as the stream has not ended, every port that waits for a connection must listen.
    fn call(&mut self, place: usize) {
        if let Some(feed) = self.feeds.get_mut(place) {
            return assert!(feed.source.call(&mut self.tally), "feed {place} finds nobody");
        }
        let outlet = &mut self.outlets[place - self.feeds.len()];
        if !(outlet.has_left && outlet.sink.is_awaited()) {
            assert!(outlet.sink.call(&mut self.tally), "{} finds nobody", outlet.sink.name);
        }
    }

    /// Connects to all ports that wait for a connection.
    pub(super) fn call_all(&mut self) {
        for place in 0..self.feeds.len() + self.outlets.len() {
            if self.is_awaited(place) {
                self.call(place);
            }
        }
    }

    /// Prepares a regular end of the stream: connects to every output that the stream was built to wait for,
    /// and to remaining inputs; some inputs are detached instead, and some outputs are never connected.
    pub(super) fn settle_who_is_awaited(&mut self) {
        for outlet in self.outlets.iter_mut().filter(|outlet| outlet.is_awaited()) {
            if outlet.was_first || self.dice.one_in(2) {
                assert!(outlet.sink.call(&mut self.tally), "{} finds nobody", outlet.sink.name);
            } else {
                self.tally.note("ending: nobody came to read");
            }
        }
        for feed in self.feeds.iter_mut().skip(1).filter(|feed| feed.source.is_awaited()) {
            let Some(port) = feed.port.filter(|_| self.carrier.listens() && self.dice.one_in(2)) else {
                continue;
            };
            let was_there = self.carrier.ask(move |stream| stream.detach_input(port, drop));
            assert_eq!(was_there, Some(true), "one that is waited for is gone");
            feed.source.close();
            feed.pending.clear();
            feed.records = 0;
            self.tally.note("ending: nobody came to write");
        }
    }

    /// Returns whether a connection is missing that the stream was built to wait for.
    pub(crate) fn has_to_wait(&self) -> bool {
        (0..self.feeds.len() + self.outlets.len()).any(|place| self.has_to_wait_for(place))
    }

    fn has_to_wait_for(&self, place: usize) -> bool {
        let was_first = match self.feeds.get(place) {
            Some(feed) => feed.was_first,
            None => self.outlets[place - self.feeds.len()].was_first,
        };
        was_first && self.is_awaited(place)
    }
}

impl Outlet {
    fn is_awaited(&self) -> bool {
        self.sink.is_awaited() && !self.has_left
    }
}
