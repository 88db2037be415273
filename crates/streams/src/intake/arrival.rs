//! Order by arrival: any input that has a record is next.
//!
//! Inputs that may have something wait in a queue. An input that gave a record goes to the end; one that has
//! nothing leaves the queue until it is ready. So a record costs the same however many inputs are idle.

use std::collections::VecDeque;

use crate::port::Port;

#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Each input once ([`Input::is_queued`](super::Input)).
    pub(crate) queue: VecDeque<Port>,
    /// The input of the current record: until its end, no other is read.
    pub(super) within: Option<Port>,
}

impl Arrivals {
    pub(super) fn gave(&mut self, port: Port, ends: bool) {
        self.within = (!ends).then_some(port);
        if ends {
            self.skip(port);
        }
    }

    /// Moves an input from the front to the end.
    pub(super) fn skip(&mut self, port: Port) {
        if self.queue.front() == Some(&port) {
            self.queue.rotate_left(1);
        }
    }

    pub(super) fn removed(&mut self, port: Port) {
        self.within = self.within.filter(|within| *within != port);
        self.queue.retain(|queued| *queued != port);
    }
}
