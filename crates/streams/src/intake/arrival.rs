//! Order by arrival: the next input is any input that has a record, or the choice of a custom order.
//!
//! Inputs that may have data wait in a queue. An input that gave a record moves to the end; an empty input
//! leaves the queue until it is ready. So the cost of a record does not depend on the number of idle inputs.

use std::collections::VecDeque;

use super::Input;
use super::polling::{PollingOrder, ReadyInputs};
use crate::error::StreamError;
use crate::port::Port;

#[derive(Default)]
pub(crate) struct Arrivals {
    /// Each input at most once ([`Input::is_queued`](super::Input)).
    pub(crate) queue: VecDeque<Port>,
    /// Input of the current record: no other input is read until the record ends.
    pub(super) within: Option<Port>,
    /// Custom order that chooses among queued inputs; without it the first is next.
    custom: Option<Box<dyn PollingOrder>>,
    /// Error of the custom order, until it is reported.
    pub(super) failure: Option<StreamError>,
}

impl Arrivals {
    pub(super) fn with(custom: Box<dyn PollingOrder>) -> Arrivals {
        Arrivals { custom: Some(custom), ..Arrivals::default() }
    }

    pub(super) fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Port of the next input, between two records. If nothing more is read (`is_cut`), the custom order is
    /// not asked: the bytes already read are sent in queue order.
    pub(super) fn next(&mut self, inputs: &[Input], is_cut: bool) -> Option<Port> {
        let first = *self.queue.front()?;
        let Some(custom) = self.custom.as_mut().filter(|_| !is_cut) else { return Some(first) };
        let ready = ReadyInputs { inputs, queue: &self.queue };
        let error = match custom.next(&ready) {
            Some(port) if ready.get(port).is_some() => return Some(port),
            Some(port) => format!("it chose input {port}, which is not ready"),
            None if self.queue.len() < inputs.len() => return None,
            None => "it chose no input, and all are ready".to_owned(),
        };
        self.failure = Some(StreamError::Order(error));
        None
    }

    pub(super) fn gave(&mut self, port: Port, ends: bool) {
        self.within = (!ends).then_some(port);
        if ends {
            self.skip(port);
            self.custom.iter_mut().for_each(|custom| custom.taken(port));
        }
    }

    /// Moves an input from the front to the end.
    pub(super) fn skip(&mut self, port: Port) {
        if self.take_out(port) {
            self.queue.push_back(port);
        }
    }

    /// Removes an input from the queue: from the front, or from the place where a custom order chose it.
    /// Returns whether it was queued.
    pub(super) fn take_out(&mut self, port: Port) -> bool {
        if self.queue.front() == Some(&port) {
            return self.queue.pop_front().is_some();
        }
        let place = self.queue.iter().position(|queued| self.custom.is_some() && *queued == port);
        place.and_then(|place| self.queue.remove(place)).is_some()
    }

    pub(super) fn removed(&mut self, port: Port) {
        self.within = self.within.filter(|within| *within != port);
        self.queue.retain(|queued| *queued != port);
        self.custom.iter_mut().for_each(|custom| custom.gone(port));
    }
}
