//! The end of a stream that ends well: handlers and outputs are told, and connections must have got what they took.

use super::{Acted, Output, Stream, StreamError};
use crate::object::ObjectError;

/// How often one that takes or acknowledges nothing is looked at, when there is nothing else to wait for.
pub(crate) const LOOK_AGAIN_US: u64 = 1_000_000;

/// Since when a number has been the same that should change.
#[derive(Debug, Default)]
pub(super) struct Standstill(Option<(u64, u64)>);

impl Standstill {
    /// How long it has been `number`, in microseconds.
    pub(super) fn of(&mut self, number: u64, now_us: u64) -> u64 {
        let (_, since_us) = self.0.filter(|(before, _)| *before == number).unwrap_or((number, now_us));
        self.0 = Some((number, since_us));
        now_us.saturating_sub(since_us)
    }
}

impl Stream {
    /// Tells handlers and outputs that nothing more will come, once, and waits until outputs have it: what a connection took is lost
    /// if it is reset then.
    pub(super) fn finish(&mut self, now_us: u64) -> Result<Acted, StreamError> {
        self.check_outputs(now_us)?;
        if !self.is_finishing {
            self.is_finishing = true;
            self.put_pipes_away();
            self.end_handlers()?;
            if self.settings.finish_outputs {
                self.each_output(now_us, |output| output.object.finish().map(|()| true))?;
            }
        }
        let stall_us = self.settings.stall_us;
        let are_done = !self.settings.finish_outputs
            || self.each_output(now_us, |output| output.has_delivered(stall_us, now_us))?;
        Ok(if are_done { Acted::Ended(Ok(())) } else { Acted::Deliver })
    }

    fn end_handlers(&mut self) -> Result<(), StreamError> {
        self.chain.end()?;
        Ok(self.outputs.iter_mut().try_for_each(|output| output.chain.end())?)
    }

    /// Does something with each output; answers whether all say yes.
    fn each_output(
        &mut self,
        now_us: u64,
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
        self.check_outputs(now_us)?;
        Ok(all)
    }
}

impl Output {
    /// Whether the peer has acknowledged all that the connection took.
    fn has_delivered(&mut self, stall_us: u64, now_us: u64) -> Result<bool, ObjectError> {
        let unacknowledged = self.object.unacknowledged()?;
        if self.standstill.of(unacknowledged.into(), now_us) > stall_us && unacknowledged > 0 {
            return Err(self.object.error("shutdown", rustix::io::Errno::TIMEDOUT));
        }
        Ok(unacknowledged == 0)
    }
}
