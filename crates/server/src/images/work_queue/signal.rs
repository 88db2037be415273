//! Signal that work may have become urgent.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Signal to the thread for urgent work. Notifying does not wait for a check of the work.
#[derive(Default)]
pub(in crate::images) struct UrgencySignal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignalState {
    is_notified: bool,
    ended: bool,
}

impl UrgencySignal {
    /// Makes the thread check for urgent work.
    pub(in crate::images) fn notify(&self) {
        if !std::mem::replace(&mut self.state.lock().is_notified, true) {
            self.changed.notify_one();
        }
    }

    #[cfg(test)]
    pub(super) fn is_notified(&self) -> bool {
        self.state.lock().is_notified
    }

    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_one();
    }

    /// Waits for a notification or until a time, but at least for `pause`.
    pub(super) fn wait(&self, pause: Duration, until: Option<Instant>) {
        let paused = Instant::now() + pause;
        let mut state = self.state.lock();
        while !state.ended && !self.changed.wait_until(&mut state, paused).timed_out() {}
        while !state.ended && !state.is_notified {
            match until {
                None => self.changed.wait(&mut state),
                Some(until) if self.changed.wait_until(&mut state, until).timed_out() => break,
                Some(_) => {}
            }
        }
        state.is_notified = false;
    }
}
