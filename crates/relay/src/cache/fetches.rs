//! The list of fetches that are under way, and which of them turned out to be outdated.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::fetch::Tell;

/// Fetches that are under way, by key.
#[derive(Default)]
pub(super) struct Fetches {
    running: Mutex<HashMap<Arc<str>, Running>>,
}

/// One of them, as others see it.
pub(super) struct Running {
    pub(super) outcome: Tell,
    pub(super) outdated: Outdated,
}

/// True if what a fetch brings may have changed since the origin was asked. Then it is not kept, though those
/// who waited for it get it. Locked as long as the body is put in its place, so only where one may wait for
/// storage.
#[derive(Clone, Default)]
pub(super) struct Outdated(Arc<Mutex<bool>>);

impl Outdated {
    /// It is, from now on.
    pub(super) fn set(&self) {
        *self.lock() = true;
    }

    /// Does something unless it is, and so that it cannot become so meanwhile.
    pub(super) fn unless<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let is_outdated = self.lock();
        (!*is_outdated).then(act)
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.0.lock()
    }
}

impl Fetches {
    /// Takes one off the list, so that nobody joins it any more.
    pub(super) fn take(&self, key: &str) -> Option<Outdated> {
        self.lock().remove(key).map(|fetch| fetch.outdated)
    }

    /// The list.
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Running>> {
        self.running.lock()
    }
}
