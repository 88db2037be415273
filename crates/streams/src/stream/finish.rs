//! The end of a stream that ends well.

use super::{Stream, StreamError, StreamEvent};

impl Stream {
    /// Tells handlers and outputs that nothing more will come.
    pub(super) fn finish(&mut self) -> Result<(), StreamError> {
        self.chain.end()?;
        for output in &mut self.outputs {
            output.chain.end()?;
        }
        if !self.settings.finish_outputs {
            return Ok(());
        }
        for place in 0..self.outputs.len() {
            let output = &self.outputs[place];
            match output.object.finish() {
                Err(error) if self.settings.survives_outputs => {
                    let (port, dropped) = (output.port, output.outbox.dropped());
                    self.tell(StreamEvent::OutputFailed { port, error: error.to_string(), dropped });
                }
                finished => finished?,
            }
        }
        Ok(())
    }
}
