//! Detaching inputs and outputs of a running stream.

use wirepath_engine::catch_panic;

use super::Stream;
use crate::object::Object;
use crate::port::Port;

impl Stream {
    /// Detaches an output after the current record, when all of its waiting records have left, and returns
    /// the object by `on_detached`, also if the stream ends before. A byte stream without framing gives the
    /// output nothing more from now on. Returns false if there is no such output.
    pub fn detach_output(&mut self, port: Port, on_detached: impl FnOnce(Object) + Send + 'static) -> bool {
        let is_unframed = self.intake.is_within_unframed();
        match self.outputs.detach(port, Box::new(on_detached), is_unframed) {
            Ok(()) => true,
            Err(on_detached) => self.detach_expected(port, false, on_detached),
        }
    }

    /// Detaches an input when it is between two records, and returns the object by `on_detached`, with the
    /// bytes that were read from it and not used, also if the stream ends before. A byte stream without
    /// framing is detached at once. Returns false if there is no such input.
    pub fn detach_input(&mut self, port: Port, on_detached: impl FnOnce(Object) + Send + 'static) -> bool {
        self.settle_seen();
        match self.intake.detach(port, Box::new(on_detached)) {
            Ok(()) => true,
            Err(on_detached) => self.detach_expected(port, true, on_detached),
        }
    }

    /// Returns objects whose detach was pending when the stream ended.
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
