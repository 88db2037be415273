//! A turn: moving what can be moved, about as much as is allowed.

use super::{Acted, Order, Output, Port, Stream, StreamError, nth_mut};
use crate::object::{Kind, PARTS};
use wirepath_engine::catch_panic;

/// Most steps of a turn, each of which may move nothing but empty datagrams, or drop some.
const STEPS: usize = 256;

/// So much leaves for an output before more is taken for it, to find it in the processor's caches.
const ENOUGH: usize = 64 * 1024;

impl Stream {
    /// Moves about `allowance` bytes, in and out counted alike; answers what came of it and how many it was.
    pub(crate) fn act(&mut self, allowance: u64, now_us: u64) -> (Acted, u64) {
        let before = self.charged;
        (self.allowance, self.turn_end) = (allowance, before.saturating_add(allowance));
        let acted = match catch_panic(|| self.take_turn(now_us)) {
            Ok(Ok(acted)) => acted,
            Ok(Err(error)) => Acted::Ended(Err(self.first_cause(error))),
            Err(words) => Acted::Ended(Err(self.first_cause(StreamError::Panicked(words)))),
        };
        self.charged = self.moved();
        (acted, self.charged - before)
    }

    /// What the stream ends with, now that `error` ends it: what failed first.
    pub(super) fn first_cause(&mut self, error: StreamError) -> StreamError {
        self.failing.take().unwrap_or(error)
    }

    fn take_turn(&mut self, now_us: u64) -> Result<Acted, StreamError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        for _ in 0..STEPS {
            if self.is_finishing {
                return self.finish(now_us);
            }
            let mut progressed = self.admit(now_us)? | self.send(now_us)?;
            if !self.has_begun && self.failing.is_none() {
                progressed |= self.let_inputs_leave();
            } else if !self.is_turn_over() {
                progressed |= self.take_in(now_us)?;
            }
            if self.settings.ends_with_connections
                && let Some(error) = self.failing.take()
            {
                return Err(error);
            }
            if self.is_used_up() {
                // The last part of a stripe may be shorter. Datagrams wait until it ends.
                self.outputs.iter_mut().for_each(|output| progressed |= output.outbox.end_record());
            }
            if !progressed {
                progressed = self.give_up_stuck(now_us)?;
            }
            self.check_outputs()?;
            if self.is_over() {
                return self.why_over().map_or_else(|| self.finish(now_us), Err);
            }
            if self.is_turn_over() {
                return Ok(Acted::More);
            }
            if !progressed {
                self.check_broken()?;
                return Ok(Acted::Wait);
            }
        }
        Ok(Acted::More)
    }

    /// Takes from inputs what outputs have room for; answers whether anything was done.
    fn take_in(&mut self, now_us: u64) -> Result<bool, StreamError> {
        if self.can_move_unseen() {
            return self.move_unseen(now_us);
        }
        if self.will_move_unseen() {
            return Ok(self.place(now_us)); // what was read before leaves first, and no more is read
        }
        Ok(self.take_seen(now_us))
    }

    /// Takes some records, so that outputs get many of the small ones in one call.
    fn take_seen(&mut self, now_us: u64) -> bool {
        for taken in 0..PARTS {
            let placed = self.place(now_us);
            if !(self.pull() | placed) {
                return taken > 0;
            }
            let is_enough = self.outputs.iter().any(|output| output.outbox.bytes() >= ENOUGH);
            if is_enough || self.is_turn_over() || self.will_move_unseen() {
                break;
            }
        }
        true
    }

    /// Bytes that were read, and bytes that outputs took.
    pub(crate) fn moved_bytes(&self) -> (u64, u64) {
        (self.counts.bytes_in, self.counts.bytes_out)
    }

    /// A turn was measured, and took so much of a processor.
    pub(crate) fn note_processor_ns(&mut self, used_ns: u64) {
        self.counts.processor_ns = Some(self.counts.processor_ns.unwrap_or(0) + used_ns);
    }

    /// Both together.
    pub(super) fn moved(&self) -> u64 {
        self.counts.bytes_in + self.counts.bytes_out
    }

    /// Whether the turn has moved what it may.
    pub(super) fn is_turn_over(&self) -> bool {
        self.moved() >= self.turn_end
    }

    /// An input may have something now, or an output room. Saying so of what has not is harmless.
    pub(crate) fn note_ready(&mut self, port: Port) {
        if let Some(place) = self.place_of_input(port) {
            self.inputs[place].readable = true;
            return self.wake_input(place);
        }
        if let Some(expected) = self.expected.iter_mut().find(|expected| expected.port == port) {
            expected.readable = true;
            return;
        }
        if let Some(output) =
            self.outputs.iter_mut().chain(&mut self.leaving).find(|output| output.port == port)
        {
            output.note_room(self.watcher.as_ref());
        }
    }

    /// The connection of an input has something that its peer sent as urgent.
    pub(crate) fn note_urgent(&mut self, port: Port) {
        let input = self.place_of_input(port).and_then(|place| self.inputs.get_mut(place));
        if let Some(Kind::Stream(connection)) = input.map(|input| &mut input.object.kind) {
            connection.has_urgent = true;
            self.inputs_unchanged = false;
        }
    }

    /// Lets outputs take what waits for them, until the turn is over; in the next, those that were left out are first.
    fn send(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let mut progressed = false;
        for _ in 0..=self.outputs.len() + self.leaving.len() {
            let place = self.next_to_send;
            let Some(output) = nth_mut(&mut self.outputs, &mut self.leaving, place) else {
                self.next_to_send = 0;
                continue;
            };
            let mut sent = match output.held() {
                0 => output.send(&mut self.storage, now_us),
                _ => output.drain_pipe(&mut self.storage, now_us),
            };
            if let Ok(None) = sent {
                sent = self.watch_full(place).map(|()| None);
            }
            match sent {
                Ok(taken) => {
                    self.tell_too_long(place);
                    self.counts.bytes_out += taken.unwrap_or(0) as u64;
                    progressed |= taken.is_some();
                    self.next_to_send += 1;
                }
                Err(error) => {
                    self.output_failed(place, error)?;
                    progressed = true;
                }
            }
            if self.is_turn_over() {
                break;
            }
        }
        self.let_leave();
        Ok(progressed)
    }

    /// Whether nothing more comes, and outputs were given all that came.
    pub(super) fn is_used_up(&self) -> bool {
        let nothing_waits = match &self.order {
            Order::Tags { merge, .. } => merge.is_done(),
            Order::Shares(collector) => collector.is_empty(),
            Order::Turns(_) | Order::Arrival(_) => true,
        };
        self.has_no_input() && nothing_waits && self.pending.is_empty()
    }

    /// What a stream that is over has failed with, if it has.
    fn why_over(&mut self) -> Option<StreamError> {
        let no_input = self.no_input.take_if(|_| !self.has_input_ended);
        self.failing.take().or(no_input.map(StreamError::NoInput))
    }

    /// Whether everything that came has left; if it fails, everything for which there is an output.
    fn is_over(&self) -> bool {
        let is_given = self.is_used_up() || self.failing.is_some() && self.outputs.is_empty();
        is_given && self.outputs.iter().chain(&self.leaving).all(Output::is_idle)
    }
}
