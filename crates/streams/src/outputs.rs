//! Outputs, the last part of a stream: their outboxes and writes.
//!
//! A current output gets records. A detached or disconnected output is leaving: it gets no more records and
//! sends those it has. The last status of removed outputs is kept.

mod leave;
mod lend;
mod output;
mod pipe;

use std::collections::VecDeque;
use std::ops::Range;

use rustix::io::Errno;
use wirepath_datapath::Pipe;

use crate::error::StreamError;
use crate::event::StreamEvent;
use crate::object::ObjectError;
use crate::outbox::Offered;
use crate::port::Port;
use crate::record::Run;
use crate::shared::Shared;
pub(crate) use output::Output;
pub use output::{OutputOptions, OutputStatus};

/// Number of removed outputs, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoneOutputs {
    /// Outputs that failed while the stream continued.
    pub failed: u64,
    /// Outputs that did not keep up and were disconnected.
    pub disconnected: u64,
    /// Outputs that were detached.
    pub detached: u64,
}

/// The outputs of a stream.
#[derive(Default)]
pub(crate) struct Outputs {
    /// Outputs that get records.
    pub(crate) current: Vec<Output>,
    /// Outputs that get no more records and still have bytes to send.
    pub(crate) leaving: Vec<Output>,
    /// Last statuses of removed outputs, in the order of removal.
    pub(crate) ended: VecDeque<OutputStatus>,
    /// Outputs that are no longer current, until the spread is told.
    removed: Vec<Removed>,
    /// Reason why the last current output was removed, while leaving outputs still send.
    pub(crate) last_gone: Option<String>,
    /// Index of the output that sends first; leaving outputs come after current ones.
    next_to_send: usize,
    /// Time of the next sample of outputs that may have stalled, in microseconds.
    sample_again_us: u64,
    /// Runs made by the handlers of an output from a run; empty otherwise.
    made: Vec<Run>,
    /// Places of the outputs to which a train was lent in this pass, in order.
    borrowers: Vec<usize>,
    /// Result of each output for the current train; empty between two trains.
    taken: Vec<(usize, Result<usize, Errno>)>,
    pub(crate) taken_bytes: u64,
    /// Bytes that were lent: copied once for all outputs.
    pub(crate) lent_bytes: u64,
    pub(crate) gone: GoneOutputs,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Removed {
    /// Place among the current outputs.
    pub(crate) place: usize,
    pub(crate) port: Port,
    /// The output had the beginning of a record but not its end.
    pub(crate) within_record: bool,
}

impl Outputs {
    pub(crate) fn len(&self) -> usize {
        self.current.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// All outputs; leaving outputs come after current ones.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Output> {
        self.current.iter().chain(&self.leaving)
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Output> {
        self.current.iter_mut().chain(&mut self.leaving)
    }

    pub(crate) fn place_of(&self, port: Port) -> Option<usize> {
        self.current.iter().position(|output| output.port == port)
    }

    /// The current output with this port, unless it is being detached.
    pub(crate) fn get_mut(&mut self, port: Port) -> Option<&mut Output> {
        self.current.iter_mut().find(|output| output.port == port && output.detach.is_none())
    }

    /// Output by its index; leaving outputs come after current ones.
    fn nth_mut(&mut self, place: usize) -> Option<&mut Output> {
        let current = self.current.len();
        if place < current { self.current.get_mut(place) } else { self.leaving.get_mut(place - current) }
    }

    /// Adds a current output: in the order of ports, or after the others.
    pub(crate) fn insert(&mut self, output: Output, in_order: bool) {
        self.last_gone = None;
        let sorted = self.current.partition_point(|other| other.port < output.port);
        self.current.insert(if in_order { sorted } else { self.current.len() }, output);
    }

    /// Takes the outputs that are no longer current, in the order of removal.
    pub(crate) fn take_removed(&mut self) -> impl Iterator<Item = Removed> + use<> {
        std::mem::take(&mut self.removed).into_iter()
    }

    /// Returns whether the stream should wait instead of offering more to any of these outputs.
    pub(crate) fn block(&self, places: &Range<usize>) -> bool {
        self.current[places.clone()].iter().any(|output| output.outbox.blocks())
    }

    /// The output with the shortest wait among outputs with room; if none has room, among outputs that drop
    /// records.
    pub(crate) fn least_loaded(&self, now_us: u64) -> Option<usize> {
        let rank = |output: &Output| {
            (output.outbox.is_full(), output.throughput.wait_s(output.outbox.bytes, now_us))
        };
        let outputs = self.current.iter().enumerate();
        let open = outputs.filter(|(_, output)| !output.outbox.blocks() && output.held() == 0);
        let ranked = open.map(|(place, output)| (rank(output), place));
        let least = ranked.min_by(|((full, wait), _), ((other_full, other_wait), _)| {
            full.cmp(other_full).then(wait.total_cmp(other_wait))
        });
        least.map(|(_, place)| place)
    }

    /// Gives a run to one output, through its own handlers. The output may be removed by this call; later
    /// outputs then move up.
    pub(crate) fn offer(&mut self, place: usize, run: Run, shared: &mut Shared) {
        let Outputs { current, made, .. } = self;
        let output = &mut current[place];
        let ends = run.ends;
        if output.offer(run, made, shared) == Offered::Disconnect {
            return self.disconnect(place);
        }
        if ends {
            output.outbox.note_record_end();
            if output.detach.is_some() {
                self.leave(place);
            }
        }
    }

    /// Sends waiting bytes until the turn is over. The next turn starts with the outputs that were left out.
    pub(crate) fn send(&mut self, shared: &mut Shared, now_us: u64) -> Result<bool, StreamError> {
        let mut progressed = self.lend(shared, now_us);
        for _ in 0..=self.current.len() + self.leaving.len() {
            let place = self.next_to_send;
            // A copied train would put the output out of step with the outputs that share the next lent
            // train.
            if shared.turn.is_over() && self.borrowers.binary_search(&place).is_ok() {
                self.next_to_send += 1;
                continue;
            }
            let Some(output) = self.nth_mut(place) else {
                self.next_to_send = 0;
                continue;
            };
            let mut sent = output.send(shared, now_us);
            if let Ok(None) = sent {
                sent = output.watch_full(shared).map(|()| None);
            }
            match sent {
                Ok(taken) => {
                    if let Some(error) = output.object.take_first_error() {
                        let by = output.object.name.clone();
                        shared.tell(StreamEvent::RecordRefused { by, error });
                    }
                    self.note_taken(taken.unwrap_or(0), shared);
                    progressed |= taken.is_some();
                    self.next_to_send += 1;
                }
                Err(error) => {
                    self.fail(place, error, shared)?;
                    progressed = true;
                }
            }
            if shared.turn.is_over() {
                break;
            }
        }
        self.end_idle(shared);
        Ok(progressed)
    }

    pub(crate) fn note_taken(&mut self, bytes: usize, shared: &mut Shared) {
        self.taken_bytes += bytes as u64;
        shared.turn.add(bytes as u64);
    }

    /// Handles the result of a storage job for an output. Returns an error if it ends the stream.
    pub(crate) fn note_stored(
        &mut self,
        port: Port,
        bytes: u64,
        result: Result<(), Errno>,
        pipe: Option<Pipe>,
        now_us: u64,
        shared: &mut Shared,
    ) -> Result<(), StreamError> {
        let Some(place) = self.all().position(|output| output.port == port) else { return Ok(()) };
        let Some(output) = self.nth_mut(place) else { return Ok(()) };
        output.busy = false;
        output.storing -= bytes as usize;
        output.object.note_written(bytes as usize);
        output.note_taken(bytes as usize, now_us);
        let error = result.map_err(|errno| output.object.error("writing", errno)).err();
        if let Some(pipe) = pipe.filter(|_| error.is_none()) {
            output.pipe = Some(pipe); // the output had no pipe while another thread had this one
        }
        self.note_taken(bytes as usize, shared);
        error.map_or(Ok(()), |error| self.fail(place, error, shared))
    }

    pub(crate) fn note_panicked(&mut self, port: Port) {
        self.all_mut().filter(|output| output.port == port).for_each(|output| output.busy = false);
    }

    pub(crate) fn note_ready(&mut self, port: Port, shared: &Shared) {
        self.all_mut().filter(|output| output.port == port).for_each(|output| output.note_room(shared));
    }

    pub(crate) fn watch(&mut self, shared: &Shared) -> Result<(), ObjectError> {
        self.all_mut().try_for_each(|output| output.watch(shared))
    }

    pub(crate) fn forget_readiness(&mut self) {
        self.all_mut().for_each(Output::forget_readiness);
    }

    /// Calls `act` for each current output. Returns whether all calls return true; an error if one fails and
    /// that ends the stream.
    pub(crate) fn each(
        &mut self,
        shared: &mut Shared,
        mut act: impl FnMut(&mut Output) -> Result<bool, ObjectError>,
    ) -> Result<bool, StreamError> {
        let (mut place, mut all) = (0, true);
        while let Some(output) = self.current.get_mut(place) {
            match act(output) {
                Ok(says_yes) => {
                    all &= says_yes;
                    place += 1;
                }
                Err(error) => self.fail(place, error, shared)?,
            }
        }
        Ok(all)
    }

    /// Fails outputs that have stalled: leaving outputs only, or all outputs if `of_all`. Outputs that have
    /// sent everything have not stalled, unless stalls are limited at any time. Returns whether any output
    /// had stalled.
    pub(crate) fn fail_stalled(
        &mut self,
        of_all: bool,
        sample_us: u64,
        shared: &mut Shared,
        now_us: u64,
    ) -> Result<bool, StreamError> {
        if now_us < self.sample_again_us {
            return Ok(false);
        }
        self.sample_again_us = now_us + sample_us; // sampling an output takes system calls
        let mut place = if of_all { 0 } else { self.current.len() };
        let (mut progressed, settings) = (false, shared.settings);
        while let Some(output) = self.nth_mut(place) {
            let has_all = output.is_idle() && !settings.limits_stalls;
            if has_all || !output.has_stalled(settings.stall_us, now_us) {
                place += 1;
                continue;
            }
            let error = output.object.error("no data accepted for too long", Errno::TIMEDOUT);
            if self.last_gone.is_some() {
                self.lose(place, &error, shared); // the stream ends with the result of the others
            } else {
                self.fail(place, error, shared)?;
            }
            progressed = true;
        }
        Ok(progressed)
    }

    pub(crate) fn can_zero_copy(&self) -> bool {
        let count = self.current.len();
        count > 0 && self.current.iter().all(|output| output.can_zero_copy(count))
    }

    /// Ends the current record in all outboxes. Returns whether there was one.
    pub(crate) fn end_records(&mut self) -> bool {
        let mut any = false;
        self.current.iter_mut().for_each(|output| any |= output.outbox.end_record());
        any
    }

    /// Puts empty pipes away for reuse: while an output is idle, other outputs may need them.
    pub(crate) fn put_pipes_away(&mut self) {
        for output in &mut self.current {
            output.pipe.take_if(|pipe| pipe.held() == 0).into_iter().for_each(Pipe::put_away);
        }
    }
}
