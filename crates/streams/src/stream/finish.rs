//! The end of a stream that ends well: handlers and outputs are told, and connections must deliver the bytes
//! they took.

use wirepath_engine::STALL_SAMPLES;

use super::{Acted, Stream};
use crate::error::StreamError;

/// Longest time between two samples of an output that may have stalled, in microseconds. A stall is noticed
/// late by at most this time.
const LONGEST_SAMPLE_US: u64 = 5_000_000;

impl Stream {
    /// Time between two samples of outputs that may have stalled, in microseconds.
    pub(crate) fn stall_sample_us(&self) -> u64 {
        (self.shared.settings.stall_us / u64::from(STALL_SAMPLES)).clamp(1000, LONGEST_SAMPLE_US)
    }

    /// Tells handlers and outputs the end, once, and waits until outputs have delivered: bytes that a
    /// connection took are lost if the connection is reset before.
    pub(super) fn finish(&mut self, now_us: u64) -> Result<Acted, StreamError> {
        self.check_outputs()?;
        let finishes_outputs = self.shared.settings.finishes_outputs;
        if !self.is_finishing {
            self.is_finishing = true;
            self.outputs.put_pipes_away();
            self.end_handlers()?;
            if finishes_outputs {
                self.outputs.each(&mut self.shared, |output| output.object.finish().map(|()| true))?;
                self.check_outputs()?;
            }
        }
        let stall_us = self.shared.settings.stall_us;
        let mut are_done = true;
        if finishes_outputs {
            let deliver = |output: &mut crate::outputs::Output| output.has_delivered(stall_us, now_us);
            are_done = self.outputs.each(&mut self.shared, deliver)?;
            self.check_outputs()?;
        }
        Ok(if are_done { Acted::Ended(Ok(())) } else { Acted::Deliver })
    }

    fn end_handlers(&mut self) -> Result<(), StreamError> {
        self.chain.end()?;
        Ok(self.outputs.current.iter_mut().try_for_each(|output| output.chain.end())?)
    }
}
