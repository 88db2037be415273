//! Place where a handler runs: in user space only, or also in the kernel.

use parking_lot::Mutex;

use crate::error::BpfError;
use crate::maps::Counts;
use crate::mirror::Mirror;
use crate::select::Select;

/// Place of a handler, which the handler and those who move it share. In user space at first.
#[derive(Default)]
pub struct Place(Mutex<State>);

#[derive(Default)]
struct State {
    kernel: Option<InKernel>,
    /// Counts of what has ended in the kernel.
    before: Counts,
}

/// Work of a handler in the kernel.
pub enum InKernel {
    /// Mirrors datagrams; user space does what is left.
    Mirror(Mirror),
    /// Drops records that user space would drop.
    Select(Select),
}

impl InKernel {
    fn counts(&self) -> Counts {
        match self {
            InKernel::Mirror(mirror) => mirror.counts(),
            InKernel::Select(select) => select.counts(),
        }
    }

    fn end(self) -> Counts {
        match self {
            InKernel::Mirror(mirror) => mirror.end(),
            InKernel::Select(select) => select.end(),
        }
    }
}

impl Place {
    /// Has the kernel run the handler, too.
    pub fn enter_kernel(&self, kernel: InKernel) {
        let mut state = self.0.lock();
        if let Some(before) = state.kernel.replace(kernel) {
            state.before += before.end();
        }
    }

    /// Has user space alone run the handler. A selection stays attached, paused.
    pub fn leave_kernel(&self) {
        let mut state = self.0.lock();
        if let Some(InKernel::Select(select)) = &mut state.kernel
            && select.pause().is_ok()
        {
            return;
        }
        if let Some(kernel) = state.kernel.take() {
            state.before += kernel.end();
        }
    }

    /// Has a selection drop records again. Returns whether there is one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn resume_selection(&self) -> Result<bool, BpfError> {
        match &mut self.0.lock().kernel {
            Some(InKernel::Select(select)) => select.resume().map(|()| true),
            _ => Ok(false),
        }
    }

    /// Takes the selection out, with its counts so far.
    pub fn take_selection(&self) -> Option<Select> {
        let mut state = self.0.lock();
        match state.kernel.take() {
            Some(InKernel::Select(select)) => {
                state.before += select.counts();
                Some(select)
            }
            other => {
                state.kernel = other;
                None
            }
        }
    }

    /// Calls a function with the mirror, if there is one.
    pub fn with_mirror<T>(&self, act: impl FnOnce(&mut Mirror) -> T) -> Option<T> {
        match &mut self.0.lock().kernel {
            Some(InKernel::Mirror(mirror)) => Some(act(mirror)),
            _ => None,
        }
    }

    /// Counts of the kernel so far.
    pub fn counts(&self) -> Counts {
        let state = self.0.lock();
        let mut counts = state.before;
        if let Some(kernel) = &state.kernel {
            counts += kernel.counts();
        }
        counts
    }
}
