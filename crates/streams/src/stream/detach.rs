//! Detaching inputs and outputs of a running stream.

use wirepath_engine::catch_panic;

use super::Stream;
use crate::object::Object;
use crate::port::Port;

impl Stream {
    /// Detaches an output after the current record, when all that waits for it has left, and gives the object
    /// back, also if the stream ends before. Of a stream of bytes without framing it gets nothing more from
    /// now on. Returns false if there is no such output.
    pub fn detach_output(&mut self, port: Port, on_detached: impl FnOnce(Object) + Send + 'static) -> bool {
        let is_unframed = self.intake.is_within_unframed();
        match self.outputs.detach(port, Box::new(on_detached), is_unframed) {
            Ok(()) => true,
            Err(on_detached) => self.detach_expected(port, false, on_detached),
        }
    }

    /// Detaches an input when it is between two records, and gives the object back, with bytes that were read
    /// from it and not used, also if the stream ends before. A stream of bytes without framing is detached at
    /// once. Returns false if there is no such input.
    pub fn detach_input(&mut self, port: Port, on_detached: impl FnOnce(Object) + Send + 'static) -> bool {
        self.settle_seen();
        match self.intake.detach(port, Box::new(on_detached)) {
            Ok(()) => true,
            Err(on_detached) => self.detach_expected(port, true, on_detached),
        }
    }

    /// Gives objects back that were to be detached when the stream ended.
    pub(crate) fn give_back(&mut self) {
        // Callbacks may panic.
        while catch_panic(|| self.give_one_back()).unwrap_or_else(|message| {
            tracing::error!(message, "a callback for a detached object panicked");
            true
        }) {}
    }

    fn give_one_back(&mut self) -> bool {
        self.intake.give_one_back(&mut self.shared) || self.outputs.give_one_back(&mut self.shared)
    }
}
