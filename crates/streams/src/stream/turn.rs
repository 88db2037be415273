//! A turn: moves about as many bytes as allowed.

use wirepath_engine::catch_panic;

use super::{Acted, Stream};
use crate::error::StreamError;
use crate::intake::{HandOn, Intake};
use crate::outputs::Output;
use crate::shared::Shared;

/// Most steps of a turn. A step may move only empty datagrams, or only drop bytes.
const STEPS: usize = 256;

/// Most runs that are read before outputs send.
const RUNS: usize = 64;

/// An output sends when this much waits, before more is taken for it, so that the bytes are still in the
/// processor's caches.
const ENOUGH: usize = 64 * 1024;

impl Stream {
    /// Moves about `allowance` bytes; bytes in and out count alike. Returns the result and the number of
    /// bytes moved.
    pub(crate) fn act(&mut self, allowance: u64, now_us: u64) -> (Acted, u64) {
        self.shared.turn.begin(allowance);
        let acted = match catch_panic(|| self.take_turn(now_us)) {
            Ok(Ok(acted)) => acted,
            Ok(Err(error)) => Acted::Ended(Err(self.first_cause(error))),
            Err(message) => Acted::Ended(Err(self.first_cause(StreamError::Panicked(message)))),
        };
        (acted, self.shared.turn.charge())
    }

    /// The first error of the stream, which `error` ends now.
    pub(super) fn first_cause(&mut self, error: StreamError) -> StreamError {
        self.shared.failing.take().unwrap_or(error)
    }

    fn take_turn(&mut self, now_us: u64) -> Result<Acted, StreamError> {
        if let Some(error) = self.shared.failed.take() {
            return Err(error);
        }
        for _ in 0..STEPS {
            if self.is_finishing {
                return self.finish(now_us);
            }
            self.make_changes();
            self.shared.turn.set_copies(self.spread.copies(&self.outputs));
            let mut progressed = self.accept(now_us)? | self.outputs.send(&mut self.shared, now_us)?;
            if !self.listening.has_begun() && !self.shared.is_failing() {
                progressed |= self.remove_detached_inputs();
            } else if !self.shared.turn.is_over() {
                progressed |= self.take_in(now_us)?;
                if self.shared.turn.is_over() {
                    // The bytes just handled are still in the processor's cache.
                    self.distribute(now_us);
                    self.outputs.send(&mut self.shared, now_us)?;
                }
            }
            if self.shared.settings.ends_with_connections
                && let Some(error) = self.shared.failing.take()
            {
                return Err(error);
            }
            if self.is_used_up() {
                // Ends the last part of a stripe, which may be shorter. Datagrams wait for that end.
                progressed |= self.outputs.end_records();
            }
            if !progressed {
                progressed = self.fail_stalled(now_us)?;
            }
            self.check_outputs()?;
            if self.is_over() {
                return self.failure().map_or_else(|| self.finish(now_us), Err);
            }
            if self.shared.turn.is_over() {
                return Ok(Acted::More);
            }
            if !progressed {
                self.check_broken()?;
                return Ok(Acted::Wait);
            }
        }
        Ok(Acted::More)
    }

    /// Takes bytes from inputs as long as outputs have room. Returns whether anything was done.
    fn take_in(&mut self, now_us: u64) -> Result<bool, StreamError> {
        if self.parts().can_zero_copy() {
            return self.parts().move_bytes(now_us);
        }
        if self.parts().allow_zero_copy() {
            return Ok(self.distribute(now_us)); // bytes read before leave first; no more are read
        }
        let before = self.intake.counts.bytes;
        let by_rule = self.shared.copies_by_rule;
        let progressed = self.take_copied(now_us);
        if by_rule {
            self.shared.lending.add_copied(self.intake.counts.bytes - before);
        }
        Ok(progressed)
    }

    /// Takes some records, so that outputs get many small records in one call.
    fn take_copied(&mut self, now_us: u64) -> bool {
        self.settle_seen();
        for taken in 0..RUNS {
            let distributed = self.distribute(now_us);
            if !(self.pull() | distributed) {
                return taken > 0;
            }
            let is_enough = self.outputs.current.iter().any(|output| output.outbox.bytes >= ENOUGH);
            if is_enough || self.shared.turn.is_over() || self.parts().allow_zero_copy() {
                break;
            }
        }
        true
    }

    /// Gives pending runs to outputs. Returns whether anything was done.
    fn distribute(&mut self, now_us: u64) -> bool {
        let distributed = self.spread.distribute(&mut self.outputs, &mut self.shared, now_us);
        self.intake.cut_if_failing(&self.shared);
        distributed
    }

    /// Reads from inputs, unless earlier runs wait for room. Returns whether anything was done.
    pub(super) fn pull(&mut self) -> bool {
        let may_pull = self.spread.pending.is_empty() && !self.outputs.is_empty();
        let pulled = may_pull && self.with_intake(|intake, shared, hand_on| intake.pull(shared, hand_on));
        pulled | self.remove_detached_inputs()
    }

    fn remove_detached_inputs(&mut self) -> bool {
        self.with_intake(|intake, shared, hand_on| intake.remove_detached(shared, hand_on))
    }

    /// Calls `act` with the intake, whose records go through the chain.
    fn with_intake(&mut self, act: impl FnOnce(&mut Intake, &mut Shared, &mut HandOn<'_>) -> bool) -> bool {
        let Stream { intake, chain, spread, shared, made, .. } = self;
        let acted = act(intake, shared, &mut |run, shared| {
            Stream::handle(chain, spread, made, run, shared);
        });
        intake.cut_if_failing(shared);
        acted
    }

    /// Time until the stream needs a turn without an event, in microseconds: to sample stalls, and to retry
    /// after descriptors were missing.
    pub(crate) fn look_again_us(&self) -> Option<u64> {
        let may_stall = || {
            self.shared.is_failing()
                || self.shared.settings.limits_stalls
                    && self.outputs.current.iter().any(|output| !output.writable)
                || self.waits_for_leaving()
        };
        self.listening.accept_again_us().or_else(|| may_stall().then(|| self.stall_sample_us()))
    }

    /// Fails stalled outputs: all of them if the stream fails or limits stalls at any time; otherwise leaving
    /// outputs, if the stream waits for nothing else.
    fn fail_stalled(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let of_all = self.shared.is_failing() || self.shared.settings.limits_stalls;
        if !of_all && !self.waits_for_leaving() {
            return Ok(false);
        }
        let sample_us = self.stall_sample_us();
        self.outputs.fail_stalled(of_all, sample_us, &mut self.shared, now_us)
    }

    /// Returns whether the stream waits only for leaving outputs that still send.
    pub(super) fn waits_for_leaving(&self) -> bool {
        let has_nothing_else = || {
            let are_idle = self.outputs.current.iter().all(Output::is_idle);
            self.has_no_input() && self.spread.pending.is_empty() && are_idle
        };
        let has_no_output = || self.outputs.last_gone.is_some() && !self.listening.expects_output();
        !self.outputs.leaving.is_empty() && (has_no_output() || has_nothing_else())
    }

    /// Ends the stream if its last output failed or did not keep up, after leaving outputs have sent their
    /// bytes. The stream waits for an expected output as long as there is something to send.
    pub(super) fn check_outputs(&mut self) -> Result<(), StreamError> {
        self.outputs.end_idle(&mut self.shared);
        if self.outputs.last_gone.is_none() {
            return Ok(());
        }
        let may_get_more = self.listening.expects_output() && !self.shared.is_failing() && !self.is_used_up();
        let may_go_on = !self.outputs.leaving.is_empty() || may_get_more;
        let gone = self.outputs.last_gone.take_if(|_| !may_go_on);
        gone.map_or(Ok(()), |why| Err(StreamError::NoOutput(why)))
    }

    /// Returns whether there is no input, and no expected input can come in time.
    pub(super) fn has_no_input(&self) -> bool {
        self.intake.is_empty() && (self.shared.is_failing() || !self.listening.expects_input())
    }

    /// Returns whether nothing more will come, and outputs were given everything that came.
    pub(super) fn is_used_up(&self) -> bool {
        self.has_no_input() && self.intake.nothing_waits() && self.spread.pending.is_empty()
    }

    /// Returns whether everything that came has left; if the stream fails, everything for which there is an
    /// output.
    fn is_over(&self) -> bool {
        let is_given = self.is_used_up() || self.shared.is_failing() && self.outputs.is_empty();
        is_given && self.outputs.all().all(Output::is_idle)
    }

    fn failure(&mut self) -> Option<StreamError> {
        let of_all = self.intake.failure_of_all();
        self.shared.failing.take().or(of_all)
    }
}
