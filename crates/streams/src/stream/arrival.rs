//! By arrival: the next record is of whichever input has one.
//!
//! Inputs that may have something wait in a queue. Whoever gave a record goes behind the others, and whoever has nothing leaves the queue
//! until something may have come: so a record costs the same however many inputs are silent.

use std::collections::VecDeque;

use super::input::Pulled;
use super::{Input, Order, Port, Stream, Supply};

/// Who is asked next.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Each once ([`Input::is_queued`]).
    pub(super) queue: VecDeque<Port>,
    /// The input of which a record goes by: until its end, no other is asked.
    pub(super) within: Option<Port>,
}

impl Arrivals {
    /// An input gave a record, or a part of one.
    pub(super) fn gave(&mut self, port: Port, ends: bool) {
        self.within = (!ends).then_some(port);
        if ends {
            self.pass_over(port);
        }
    }

    /// An input goes behind the others, if it is first.
    fn pass_over(&mut self, port: Port) {
        if self.queue.front() == Some(&port) {
            self.queue.rotate_left(1);
        }
    }

    /// The input is no more.
    pub(super) fn removed(&mut self, port: Port) {
        self.within = self.within.filter(|within| *within != port);
        self.queue.retain(|queued| *queued != port);
    }
}

impl Stream {
    /// The place of an input: they are in the order of their ports.
    pub(super) fn place_of_input(&self, port: Port) -> Option<usize> {
        self.inputs.binary_search_by_key(&port, |input| input.port).ok()
    }

    /// An input may have something that it had not when it was asked.
    pub(super) fn wake_input(&mut self, place: usize) {
        let Order::Arrival(arrivals) = &mut self.order else { return };
        let input = &mut self.inputs[place];
        if !input.is_queued {
            input.is_queued = true;
            arrivals.queue.push_back(input.port);
        }
    }

    pub(super) fn wake_inputs(&mut self) {
        (0..self.inputs.len()).for_each(|place| self.wake_input(place));
    }

    pub(super) fn pull_as_it_comes(&mut self) -> bool {
        while let Some(place) = self.next_asked() {
            let port = self.inputs[place].port;
            match self.next_run(place) {
                Pulled::Run(run) => {
                    if let Order::Arrival(arrivals) = &mut self.order {
                        arrivals.gave(port, run.ends);
                    }
                    self.handle(run);
                    return true;
                }
                Pulled::Dropped => {
                    if let Order::Arrival(arrivals) = &mut self.order {
                        arrivals.pass_over(port);
                    }
                    return true;
                }
                Pulled::Nothing => {
                    if !self.is_silent(place) {
                        return false;
                    }
                }
                Pulled::Gone => {
                    self.input_is_over(place);
                    return true;
                }
            }
        }
        false
    }

    /// The place of an input from which bytes can be moved unseen, if there is one.
    pub(super) fn next_arrived(&mut self) -> Option<usize> {
        loop {
            let place = self.next_asked()?;
            let input = &self.inputs[place];
            if input.may_be_asked() {
                return Some(place);
            }
            if input.supply != Supply::Open || !self.is_silent(place) {
                return None;
            }
        }
    }

    /// The place of the input that is asked next.
    fn next_asked(&self) -> Option<usize> {
        let Order::Arrival(arrivals) = &self.order else { return None };
        match arrivals.within {
            Some(port) => self.place_of_input(port).filter(|place| self.inputs[*place].is_queued),
            None => self.place_of_input(*arrivals.queue.front()?),
        }
    }

    /// An input has nothing now: it leaves the queue if it is first. Answers whether another may be asked.
    fn is_silent(&mut self, place: usize) -> bool {
        let Order::Arrival(arrivals) = &mut self.order else { return false };
        let input = &mut self.inputs[place];
        if arrivals.queue.front() == Some(&input.port) {
            arrivals.queue.pop_front();
            input.is_queued = false;
        }
        arrivals.within.is_none()
    }
}

impl Input {
    /// Whether a call may find something.
    pub(super) fn may_be_asked(&self) -> bool {
        self.readable && !self.busy && self.supply == Supply::Open
    }
}
