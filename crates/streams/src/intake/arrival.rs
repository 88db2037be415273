//! By arrival: the next record is of whichever input has one.
//!
//! Inputs that may have something wait in a queue. An input that gave a record goes behind the others; one
//! that has nothing leaves the queue until something may have come. So a record costs the same however many
//! inputs are idle.

use std::collections::VecDeque;

use crate::port::Port;

/// The queue of inputs that may have something.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Each input once ([`Input::is_queued`](super::Input)).
    pub(crate) queue: VecDeque<Port>,
    /// The input of which a record goes by: until its end, no other is read.
    pub(super) within: Option<Port>,
}

impl Arrivals {
    /// An input gave a record, or a part of one.
    pub(super) fn gave(&mut self, port: Port, ends: bool) {
        self.within = (!ends).then_some(port);
        if ends {
            self.skip(port);
        }
    }

    /// An input goes behind the others, if it is first.
    pub(super) fn skip(&mut self, port: Port) {
        if self.queue.front() == Some(&port) {
            self.queue.rotate_left(1);
        }
    }

    /// The input is gone.
    pub(super) fn removed(&mut self, port: Port) {
        self.within = self.within.filter(|within| *within != port);
        self.queue.retain(|queued| *queued != port);
    }
}
