//! A stream that is being opened, for whoever may give it up.

use std::sync::Arc;

use parking_lot::Mutex;
use wirepath_streams::Object;

/// What a stream that is being opened listens at. Opening may block without end, and names of sockets are in the file system as long as
/// these are there: whoever gives it up lets go of them.
#[derive(Clone, Debug, Default)]
pub struct Opening(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    is_given_up: bool,
    listening: Vec<Option<Object>>,
}

impl Opening {
    /// Has what listens closed; there will be no stream.
    pub fn give_up(&self) {
        *self.0.lock() = Held { is_given_up: true, listening: Vec::new() };
    }

    /// Keeps what listens, each in its place, unless it is given up.
    pub(crate) fn hold(&self, listening: Vec<Option<Object>>) {
        let mut held = self.0.lock();
        if !held.is_given_up {
            held.listening = listening;
        }
    }

    /// What was held, unless it was given up.
    pub(crate) fn release(&self) -> Option<Vec<Option<Object>>> {
        let mut held = self.0.lock();
        (!held.is_given_up).then(|| std::mem::take(&mut held.listening))
    }
}
