//! The zero-copy route: bytes that no handler changes go from one descriptor to another, or to several,
//! through pipes of the kernel, and are never copied to the program and back. `sendfile` sends a file to a
//! connection without a pipe.
//!
//! All four parts of the stream have to allow the route: inputs have no framing, or large records, whose
//! lengths are fixed or computed from bytes that are peeked at; there is no handler, or one that only peeks
//! at a file or at the beginning of records; the pattern passes bytes unmodified; outputs block. When one of
//! these conditions changes, the bytes in pipes leave first.

mod source;

use rustix::io::Errno;
use wirepath_datapath::{Lending, Pipe};

use crate::chain::Chain;
use crate::error::StreamError;
use crate::intake::{Intake, Peeked};
use crate::object::{Kind, ObjectError};
use crate::outputs::{Output, Outputs};
use crate::record::Run;
use crate::shared::Shared;
use crate::spread::{Recipients, Spread};
use source::Moved;

/// More records are put into a pipe as long as it holds at most this much: half of its size.
const GATHERED: usize = 512 * 1024;

/// Default size of a pipe: 16 pages.
const USUAL: usize = 64 * 1024;

/// The four parts of a stream, and their shared state.
pub(crate) struct StreamParts<'a> {
    pub(crate) intake: &'a mut Intake,
    pub(crate) chain: &'a mut Chain,
    pub(crate) spread: &'a mut Spread,
    pub(crate) outputs: &'a mut Outputs,
    pub(crate) shared: &'a mut Shared,
}

/// Route of the next bytes.
struct Route {
    input: usize,
    recipients: Recipients,
    /// Most bytes for this route.
    bytes: usize,
}

/// The side whose call failed, before any byte moved.
pub(crate) enum Fault {
    Input(ObjectError),
    /// Output at this place.
    Output(usize, ObjectError),
}

impl StreamParts<'_> {
    /// Returns whether the next bytes may take the route, after all bytes read before have left.
    pub(crate) fn allow_zero_copy(&mut self) -> bool {
        self.shared.copies_by_rule = false;
        // A stripe may end within the bytes that a handler has to see at once.
        let Some(scope) = self.chain.peek_scope() else { return false };
        let may_peek = self.chain.is_empty() || !self.chain.is_gathering() && !self.spread.divides_bytes();
        if !self.shared.may_zero_copy || !may_peek || self.chain.has_failed {
            return false;
        }
        self.intake.set_peek_scope(scope);
        self.intake.cut_if_failing(self.shared);
        let Some(mut going_by) = self.intake.zero_copy() else { return false };
        // Outputs have nothing of a record that a handler drops.
        going_by.is_within &= self.chain.is_empty() || !self.chain.is_dropping();
        if !self.spread.can_zero_copy(self.outputs, going_by) || !self.outputs.can_zero_copy() {
            return false;
        }
        self.shared.copies_by_rule = match self.shared.lending.rule() {
            Lending::Always => false,
            Lending::Safe => self.intake.inputs.iter().any(|input| input.object.is_stored()),
            Lending::Never => true,
        };
        !self.shared.copies_by_rule
    }

    /// Returns whether the next bytes may take the route now.
    pub(crate) fn can_zero_copy(&mut self) -> bool {
        self.spread.pending.is_empty()
            && self.outputs.current.iter().all(|output| output.outbox.is_empty())
            && self.allow_zero_copy()
    }

    /// Moves as many bytes as outputs have room for; outputs must have sent their earlier bytes. Many records
    /// are moved, by a call each, before outputs send them. Returns whether anything was done. An error ends
    /// the stream.
    pub(crate) fn move_bytes(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let enough = self.intake.counts.bytes + self.shared.turn.room() as u64;
        let (mut progressed, mut is_idle) = (false, false);
        while let Some(mut route) = self.next_route(now_us).filter(|_| self.intake.counts.bytes < enough) {
            let moved = match self.peek_and_move(&mut route, now_us) {
                Ok(moved) => moved,
                Err(Fault::Input(error) | Fault::Output(_, error)) if error.errno == Errno::INVAL => {
                    // A terminal, or another descriptor without `splice`.
                    self.copy_from_now_on();
                    return Ok(true);
                }
                Err(Fault::Input(error)) => {
                    self.intake.fail_input(route.input, error.into(), self.shared);
                    return Ok(true);
                }
                Err(Fault::Output(place, error)) => {
                    return self.outputs.fail(place, error, self.shared).map(|()| true);
                }
            };
            is_idle = matches!(moved, Moved::Nothing);
            progressed |= !matches!(moved, Moved::Nothing | Moved::Full | Moved::Wait);
            if !self.note_moved(&route, moved) {
                break;
            }
        }
        // The thread keeps a limited number of pipes. With more outputs, pipes would be closed, and opened
        // again for the next bytes.
        if is_idle && self.outputs.len() <= Pipe::KEPT {
            self.outputs.put_pipes_away();
        }
        // A custom order has failed, or a custom pattern has chosen outputs to which the next record has to
        // be copied.
        let must_go_on = self.spread.report_pattern(self.shared) || self.shared.is_failing();
        Ok(progressed || must_go_on)
    }

    /// Route of the next bytes; None if the input whose turn it is, or the output, is not ready.
    fn next_route(&mut self, now_us: u64) -> Option<Route> {
        self.spread.follow(self.outputs);
        let recipients = self.spread.recipients(self.outputs, now_us)?;
        let is_unframed = matches!(&self.intake.inputs[..], [alone] if alone.is_unframed());
        // To several outputs, bytes go by `tee`, which copies the whole contents of a pipe. Unframed bytes
        // fill a pipe at once.
        let may_hold = if recipients.outputs.len() == 1 && !is_unframed { GATHERED } else { 0 };
        let is_free = |output: &Output| output.held() <= may_hold && !output.busy;
        if !self.outputs.current[recipients.outputs.clone()].iter().all(is_free) {
            return None;
        }
        let Some(input) = self.intake.next_ready() else {
            self.intake.report_order(self.shared);
            return None;
        };
        // The length of a record that has to be peeked at comes later.
        let record = self.intake.inputs[input].splitter.blind().unwrap_or(usize::MAX);
        let bytes = recipients.bytes.min(record);
        Some(Route { input, recipients, bytes })
    }

    /// Moves the bytes that a handler has seen and passed, or need not see, of a record of known length.
    fn peek_and_move(&mut self, route: &mut Route, now_us: u64) -> Result<Moved, Fault> {
        if self.chain.is_empty() && self.intake.inputs[route.input].splitter.blind().is_some() {
            return self.move_by(route, now_us);
        }
        let peeked = self.intake.peek(route.input, self.chain, route.bytes).map_err(Fault::Input)?;
        self.shared.tell_refusal(self.chain.take_refusal());
        Ok(match peeked {
            Peeked::Passes(bytes) => {
                route.bytes = bytes;
                self.note_begun(route);
                return self.move_by(route, now_us);
            }
            Peeked::Dropped(bytes) => Moved::Dropped(bytes),
            Peeked::Nothing => Moved::Nothing,
            Peeked::Blocked(awaited) => Moved::Blocked(awaited),
            Peeked::End => Moved::End,
            Peeked::MustCopy => Moved::Copied,
            Peeked::Refused(error) => {
                self.shared.fail(error.into());
                Moved::Copied
            }
        })
    }

    /// Marks the outputs that get an endless record whose beginning a handler has seen; they also get its
    /// bytes that are copied later.
    fn note_begun(&mut self, route: &Route) {
        if self.intake.is_within_unframed() {
            let outputs = &mut self.outputs.current[route.recipients.outputs.clone()];
            outputs.iter_mut().for_each(|output| output.within_record = true);
        }
    }

    fn move_by(&mut self, route: &Route, now_us: u64) -> Result<Moved, Fault> {
        if self.sends_file(route) {
            return self.send_file(route, now_us);
        }
        if have_equal_pipes(&mut self.outputs.current[route.recipients.outputs.clone()]) {
            return self.fill_pipes(route);
        }
        // No descriptor is left, or the user's quota of pipe pages is exhausted: `tee` would not have room
        // for all bytes.
        self.copy_from_now_on();
        Ok(Moved::Copied)
    }

    /// Leaves the route; bytes in pipes leave first.
    fn copy_from_now_on(&mut self) {
        self.shared.may_zero_copy = false;
        self.outputs.put_pipes_away();
    }

    /// Returns whether bytes go directly from a file to a connection.
    fn sends_file(&self, route: &Route) -> bool {
        let outputs = &self.outputs.current[route.recipients.outputs.clone()];
        self.spread.can_send_files(self.outputs)
            && matches!(self.intake.inputs[route.input].object.kind, Kind::File(_) | Kind::Parts(_))
            && matches!(outputs, [one] if matches!(one.object.kind, Kind::Stream(_)))
    }

    fn send_file(&mut self, route: &Route, now_us: u64) -> Result<Moved, Fault> {
        let place = route.recipients.outputs.start;
        // Without a pipe, moving a byte takes half the time.
        let room = (2 * self.shared.turn.room()).min(route.bytes);
        let (input, output) = (&mut self.intake.inputs[route.input], &mut self.outputs.current[place]);
        if output.held() > 0 {
            return Ok(Moved::Wait);
        }
        if !output.writable {
            return Ok(Moved::Full);
        }
        let moved = input.send_file(&output.object, place, room)?;
        if let Moved::Bytes(bytes) = moved {
            output.note_taken(bytes, now_us);
            self.outputs.note_taken(bytes, self.shared);
        }
        Ok(moved)
    }

    fn fill_pipes(&mut self, route: &Route) -> Result<Moved, Fault> {
        let room = self.shared.turn.room().min(route.bytes);
        let place = route.recipients.outputs.start;
        let (first, others) = self.outputs.current[route.recipients.outputs.clone()].split_at_mut(1);
        let pipe = first[0].pipe().map_err(|error| Fault::Output(place, error))?;
        let moved = self.intake.inputs[route.input].fill_pipe(pipe, room).map_err(Fault::Input)?;
        match moved {
            Moved::Bytes(_) => {}
            Moved::Nothing if pipe.is_full() => return Ok(Moved::Wait),
            moved => return Ok(moved),
        }
        let copied = others.iter_mut().filter_map(|other| other.pipe.as_mut());
        // Each output gets as much as it can, also after another output could not.
        let not_reached = copied.filter_map(|other| pipe.copy_to(other).err()).count();
        if not_reached > 0 {
            self.copy_the_rest()?;
        }
        Ok(moved)
    }

    /// Copies the rest to outputs whose pipes had no room for the whole contents of the first pipe, and
    /// leaves the route.
    fn copy_the_rest(&mut self) -> Result<(), Fault> {
        self.shared.may_zero_copy = false;
        let outputs = &mut self.outputs.current;
        let Some(Output { object, pipe: Some(pipe), .. }) = outputs.first_mut() else { return Ok(()) };
        let bytes = pipe.take().map_err(|errno| Fault::Output(0, object.error("read", errno)))?;
        for output in outputs {
            let rest = bytes.slice(output.held()..);
            if !rest.is_empty() {
                output.outbox.offer(Run::single(rest, false, false));
            }
        }
        Ok(())
    }

    /// Counts moved bytes. Returns whether more may be moved before outputs send.
    fn note_moved(&mut self, route: &Route, moved: Moved) -> bool {
        let input = &mut self.intake.inputs[route.input];
        match moved {
            Moved::Bytes(bytes) => {
                self.shared.turn.add(bytes as u64);
                if input.object.is_stored() {
                    self.shared.lending.add_lent(bytes as u64);
                }
                let goes_on = self.note_passed(route, bytes);
                return goes_on && !self.has_changes();
            }
            Moved::Dropped(bytes) => {
                self.shared.turn.add(bytes as u64);
                return !self.has_changes();
            }
            Moved::Nothing => {
                input.readable = false;
                return true; // another input may have something
            }
            Moved::Full => self.outputs.current[route.recipients.outputs.start].writable = false,
            Moved::Wait => {}
            Moved::Copied => self.intake.note_zero_copy_over(route.input, false),
            Moved::End => self.intake.note_zero_copy_over(route.input, true),
            Moved::Blocked(awaited) => {
                if let Err(error) = input.wait_for(awaited, self.shared) {
                    self.intake.fail_input(route.input, error.into(), self.shared);
                }
            }
        }
        false
    }

    /// Returns whether changes of handlers are due because a record has ended.
    fn has_changes(&mut self) -> bool {
        self.chain.within_record = self.intake.is_within_record();
        self.chain.has_changes() && !self.chain.within_record
    }

    /// Counts bytes of a route. Returns whether the turn ends: a record, or a part of a stripe, has ended.
    fn note_passed(&mut self, route: &Route, bytes: usize) -> bool {
        let Route { input, recipients, .. } = route;
        let record_ends = self.intake.note_passed(*input, bytes);
        // Outputs of an endless record whose beginning a handler has seen also get its bytes that are copied.
        let record_ends = record_ends.or_else(|| self.intake.is_within_unframed().then_some(false));
        let part_ends = self.spread.advance(recipients, bytes, record_ends, self.outputs);
        if let Some(ends) = part_ends {
            let outputs = &mut self.outputs.current[recipients.outputs.clone()];
            outputs.iter_mut().for_each(|output| output.within_record = !ends);
        }
        record_ends == Some(true) || part_ends == Some(true)
    }
}

/// Gives every output a pipe. Returns whether all outputs have pipes of equal size, not smaller than the
/// default: a user whose quota of pipe pages is exhausted gets pipes of two pages, which cost more than
/// copies.
fn have_equal_pipes(outputs: &mut [Output]) -> bool {
    let mut first = None;
    outputs.iter_mut().all(|output| {
        let room = output.pipe().map_or(0, |pipe| pipe.room());
        room >= USUAL && *first.get_or_insert(room) == room
    })
}
