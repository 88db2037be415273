//! Place of a handler: user space alone, or the kernel beside it.

use parking_lot::Mutex;

use crate::mirror::{Mirror, MirrorCounts};

/// Place of a handler, which the handler and those who move it share. In user space at first.
#[derive(Default)]
pub struct Place(Mutex<State>);

#[derive(Default)]
struct State {
    mirror: Option<Mirror>,
    /// Counts of mirrors that have ended.
    before: MirrorCounts,
}

impl Place {
    /// Has a mirror in the kernel run the handler, too.
    pub fn enter_kernel(&self, mirror: Mirror) {
        self.leave_kernel();
        self.0.lock().mirror = Some(mirror);
    }

    /// Has user space alone run the handler.
    pub fn leave_kernel(&self) {
        let mut state = self.0.lock();
        if let Some(mirror) = state.mirror.take() {
            state.before += mirror.end();
        }
    }

    /// Calls a function with the mirror, if there is one.
    pub fn with<T>(&self, act: impl FnOnce(&mut Mirror) -> T) -> Option<T> {
        self.0.lock().mirror.as_mut().map(act)
    }

    /// Counts of all mirrors so far.
    pub fn counts(&self) -> MirrorCounts {
        let state = self.0.lock();
        let mut counts = state.before;
        if let Some(mirror) = &state.mirror {
            counts += mirror.counts();
        }
        counts
    }
}
