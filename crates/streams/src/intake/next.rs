//! The next input, by turns or by arrival: for the copying route and for the zero-copy route.

use super::{Intake, Order};
use crate::shared::Shared;

impl Intake {
    /// Queues an input that may have data.
    pub(super) fn wake(&mut self, place: usize) {
        let Order::Arrival(arrivals) = &mut self.order else { return };
        let input = &mut self.inputs[place];
        if !input.is_queued {
            input.is_queued = true;
            arrivals.queue.push_back(input.port);
        }
    }

    pub(super) fn wake_all(&mut self) {
        (0..self.inputs.len()).for_each(|place| self.wake(place));
    }

    /// Place of the next input, by turns or by arrival.
    pub(super) fn next(&mut self) -> Option<usize> {
        let count = self.inputs.len();
        match &mut self.order {
            Order::Turns(turns) => (count > 0).then(|| turns.current(count)),
            Order::Arrival(arrivals) => match arrivals.within {
                Some(port) => self.place_of(port).filter(|place| self.inputs[*place].is_queued),
                None => {
                    let port = arrivals.next(&self.inputs, self.is_cut)?;
                    self.place_of(port)
                }
            },
            Order::Tags { .. } | Order::Shares(_) | Order::Join(_) => None,
        }
    }

    /// Notes that a record was taken from an input, or a piece of a record that is its last if `ends`.
    pub(crate) fn took(&mut self, place: usize, ends: bool) {
        match &mut self.order {
            Order::Turns(turns) if ends => turns.taken(),
            Order::Arrival(arrivals) => arrivals.gave(self.inputs[place].port, ends),
            _ => {}
        }
    }

    /// Notes that the next input has nothing now. Returns whether another input may be read instead: never by
    /// turns.
    pub(super) fn set_idle(&mut self, place: usize) -> bool {
        let Order::Arrival(arrivals) = &mut self.order else { return false };
        let input = &mut self.inputs[place];
        if arrivals.take_out(input.port) {
            input.is_queued = false;
        }
        arrivals.within.is_none()
    }

    /// Place of the next input, if it may have data.
    pub(crate) fn next_ready(&mut self) -> Option<usize> {
        loop {
            let place = self.next()?;
            let input = &self.inputs[place];
            if input.may_be_read() {
                return Some(place);
            }
            if !input.is_open() || !self.set_idle(place) {
                return None;
            }
        }
    }

    /// Input of the current record, by turns or by arrival: no record of another input begins before its end.
    pub(super) fn going_by(&self) -> Option<usize> {
        let place = match &self.order {
            Order::Turns(turns) => turns.drawn(),
            Order::Arrival(arrivals) => arrivals.within.and_then(|port| self.place_of(port)),
            Order::Tags { .. } | Order::Shares(_) | Order::Join(_) => None,
        };
        place.filter(|place| !self.inputs[*place].splitter.at_boundary())
    }

    /// Ends the stream with the error of a failed custom order. Returns whether it has failed.
    pub(crate) fn report_order(&mut self, shared: &mut Shared) -> bool {
        let Order::Arrival(arrivals) = &mut self.order else { return false };
        let Some(error) = arrivals.failure.take() else { return false };
        shared.fail(error);
        self.cut_if_failing(shared);
        true
    }
}
