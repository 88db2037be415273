//! The end of a stream that ends well: handlers and outputs are told, and connections must have got what they took.

use super::{Acted, Output, Stream, StreamError};
use crate::object::ObjectError;

/// A connection whose peer acknowledges nothing for so long is given up.
const STALL_US: u64 = 60_000_000;

/// How often one that acknowledges nothing is looked at.
pub(crate) const LOOK_AGAIN_US: u64 = 1_000_000;

/// What a connection that was told of the end has not acknowledged, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    unacknowledged: u32,
    since_us: u64,
}

impl Stream {
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
        let are_done =
            !self.settings.finish_outputs || self.each_output(|output| output.has_delivered(now_us))?;
        Ok(if are_done { Acted::Ended(Ok(())) } else { Acted::Deliver })
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

impl Output {
    /// Whether the peer has acknowledged all that the connection took.
    fn has_delivered(&mut self, now_us: u64) -> Result<bool, ObjectError> {
        let unacknowledged = self.object.unacknowledged()?;
        let before = self.delivery.filter(|before| before.unacknowledged == unacknowledged);
        let delivery = before.unwrap_or(Delivery { unacknowledged, since_us: now_us });
        self.delivery = Some(delivery);
        if unacknowledged > 0 && now_us.saturating_sub(delivery.since_us) > STALL_US {
            return Err(self.object.error("shutdown", rustix::io::Errno::TIMEDOUT));
        }
        Ok(unacknowledged == 0)
    }
}
