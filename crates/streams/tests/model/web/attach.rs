//! Inputs and outputs that are attached and detached while the stream runs.

use wirepath_streams::{Framing, Object, OutputOptions, Port};

use super::{FEEDS, OUTLETS, Outlet, Web};

impl Web<'_> {
    pub(super) fn attach_input(&mut self) {
        if !self.carrier.listens() {
        } else if let Ok(parked) = self.parked.try_recv() {
            self.unpark(parked);
        } else if self.feeds.len() < FEEDS {
            let object = self.any_feed();
            let framing = self.framing();
            self.feeds.last_mut().unwrap().port = self.attach(object, framing);
            self.tally.note("operation: attach an input");
        }
    }

    pub(super) fn unpark(&mut self, (number, object): (u32, Object)) {
        let framing = self.framing();
        self.feeds[number as usize].port = self.attach(object, framing);
        self.tally.note("operation: attach an input again");
    }

    /// Attaches an input, unless the stream has ended, or fails and only sends what is left.
    fn attach(&mut self, object: Object, framing: Framing) -> Option<Port> {
        self.carrier.ask(move |stream| stream.attach_input(object, framing).ok()).flatten()
    }

    /// Detaches an input, but never the first, so that the stream continues.
    pub(super) fn detach_input(&mut self) {
        let place = 1 + self.dice.below(FEEDS);
        let Some(feed) = self.feeds.get_mut(place).filter(|_| self.carrier.listens()) else { return };
        let Some(port) = feed.port.take() else { return };
        let (park, number) = (self.park.clone(), feed.number);
        let is_there = self
            .carrier
            .ask(move |stream| stream.detach_input(port, move |object| park.send((number, object)).unwrap()));
        if is_there == Some(false) {
            assert!(feed.is_stored || feed.was_reset, "an input is gone that has not ended");
            feed.port = Some(port);
        }
        feed.was_first = false;
        self.tally.note("operation: detach an input");
    }

    pub(super) fn attach_output(&mut self) {
        if self.outlets.len() < OUTLETS && self.carrier.listens() {
            let (sink, object) = self.any_sink(self.outlets.len());
            let port = self.carrier.ask(move |stream| stream.attach_output(object, OutputOptions::default()));
            let Some(port) = port else { return };
            self.outlets.push(Outlet::new(sink, port, false));
            self.tally.note("operation: attach an output");
        }
    }

    /// Detaches an output, but never the first.
    pub(super) fn detach_output(&mut self) {
        let place = 1 + self.dice.below(OUTLETS);
        let Some(outlet) = self.outlets.get_mut(place).filter(|_| self.carrier.listens()) else { return };
        if outlet.has_left {
            return;
        }
        let port = outlet.port;
        // The output is closed after it has sent its bytes: the reader sees the end.
        outlet.has_left = self.carrier.ask(move |stream| stream.detach_output(port, drop)) == Some(true);
        self.tally.note("operation: detach an output");
    }
}
