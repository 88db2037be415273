//! The end of a stream. Of one that ends well handlers and outputs are told, and connections must have got what they took; of one that
//! fails what was read before still leaves.

use wirepath_engine::STALL_SAMPLES;

use super::{Acted, Input, Output, Stream, StreamError, Supply};
use crate::object::ObjectError;

/// Most time between two samples of an output that takes or acknowledges nothing.
const LONGEST_SAMPLE_US: u64 = 15_000_000;

impl Stream {
    /// Time between two samples of outputs that may have stalled.
    pub(crate) fn stall_sample_us(&self) -> u64 {
        (self.settings.stall_us / u64::from(STALL_SAMPLES)).clamp(1000, LONGEST_SAMPLE_US)
    }

    /// Tells handlers and outputs that nothing more will come, once, and waits until outputs have it: what a connection took is lost
    /// if it is reset then.
    pub(super) fn finish(&mut self, now_us: u64) -> Result<Acted, StreamError> {
        self.check_outputs()?;
        if !self.is_finishing {
            self.is_finishing = true;
            self.put_pipes_away();
            self.end_handlers()?;
            if self.settings.finish_outputs {
                self.each_output(|output| output.object.finish().map(|()| true))?;
            }
        }
        let stall_us = self.settings.stall_us;
        let are_done = !self.settings.finish_outputs
            || self.each_output(|output| output.has_delivered(stall_us, now_us))?;
        Ok(if are_done { Acted::Ended(Ok(())) } else { Acted::Deliver })
    }

    /// Something is wrong with what comes in: no more is read, and the stream ends with `error` when what was read before has left. At
    /// once if it is to pass the ends of connections on.
    pub(super) fn fail(&mut self, error: StreamError) {
        if self.failing.is_none() {
            self.failing = Some(error);
            self.inputs.iter_mut().for_each(Input::cut_supply);
            self.inputs_unchanged = false;
            self.wake_inputs();
        }
    }

    fn end_handlers(&mut self) -> Result<(), StreamError> {
        self.chain.end()?;
        Ok(self.outputs.iter_mut().try_for_each(|output| output.chain.end())?)
    }

    /// Does something with each output; answers whether all say yes.
    fn each_output(
        &mut self,
        mut act: impl FnMut(&mut Output) -> Result<bool, ObjectError>,
    ) -> Result<bool, StreamError> {
        let (mut place, mut all) = (0, true);
        while let Some(output) = self.outputs.get_mut(place) {
            match act(output) {
                Ok(says_yes) => {
                    all &= says_yes;
                    place += 1;
                }
                Err(error) => self.output_failed(place, error)?,
            }
        }
        self.check_outputs()?;
        Ok(all)
    }
}

impl Input {
    /// No more is read of it, so the beginning of a record that it has is not to go without its end.
    fn cut_supply(&mut self) {
        if self.supply == Supply::Open {
            self.supply = Supply::Cut;
            if !self.is_endless() {
                self.splitter.need_whole(crate::framing::LONGEST);
            }
        }
    }
}

impl Output {
    /// Whether nothing of it has come any further for longer than `stall_us`. For what is being written to a file its storage answers.
    pub(super) fn is_stuck(&mut self, stall_us: u64, now_us: u64) -> bool {
        // What a connection has taken may have long to go, to somebody who reads slowly.
        let on_its_way = self.object.unacknowledged();
        let come = (self.bytes + self.lost_bytes).wrapping_sub(on_its_way.into());
        !self.busy && !self.writable && self.stall_detector.sample(come, now_us) > stall_us
    }

    /// Whether the peer has acknowledged all that the connection took.
    fn has_delivered(&mut self, stall_us: u64, now_us: u64) -> Result<bool, ObjectError> {
        let unacknowledged = self.object.undelivered()?;
        if self.stall_detector.sample(unacknowledged.into(), now_us) > stall_us && unacknowledged > 0 {
            return Err(self.object.error("shutdown", rustix::io::Errno::TIMEDOUT));
        }
        Ok(unacknowledged == 0)
    }
}
