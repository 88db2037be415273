//! Handle that cancels the opening of a stream.

use std::sync::Arc;

use parking_lot::Mutex;
use wirepath_streams::Object;

/// Handle to a stream that is being opened. Opening may block without end, and the paths of the stream's Unix
/// sockets exist as long as its listeners do: cancelling closes the listeners.
#[derive(Clone, Debug, Default)]
pub struct OpenHandle(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: bool,
    listeners: Vec<Option<Object>>,
}

impl OpenHandle {
    /// Closes the listeners and makes opening fail.
    pub fn cancel(&self) {
        *self.0.lock() = State { is_cancelled: true, listeners: Vec::new() };
    }

    /// Stores the listeners, each at the index of its address, unless opening was cancelled.
    pub(super) fn keep(&self, listeners: Vec<Option<Object>>) {
        let mut state = self.0.lock();
        if !state.is_cancelled {
            state.listeners = listeners;
        }
    }

    /// Takes the listeners; None if opening was cancelled.
    pub(super) fn take(&self) -> Option<Vec<Option<Object>>> {
        let mut state = self.0.lock();
        (!state.is_cancelled).then(|| std::mem::take(&mut state.listeners))
    }
}
