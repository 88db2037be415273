//! Running fetches, and which of them are outdated.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::fetch::OutcomeSender;

/// Running fetches by key.
#[derive(Default)]
pub(super) struct Fetches(Mutex<HashMap<Arc<str>, RunningFetch>>);

pub(super) struct RunningFetch {
    pub(super) outcome: OutcomeSender,
    pub(super) outdated: Outdated,
}

/// True if the resource may have changed since the origin was asked: then its response is delivered to those
/// who wait, and not stored. Locked while a body gets its name, so only for threads that may wait for
/// storage.
#[derive(Clone, Default)]
pub(super) struct Outdated(Arc<Mutex<bool>>);

impl Outdated {
    pub(super) fn set(&self) {
        *self.0.lock() = true;
    }

    /// Runs `act` unless the fetch is outdated, which it does not become meanwhile.
    pub(super) fn unless<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let is_outdated = self.0.lock();
        (!*is_outdated).then(act)
    }
}

impl Fetches {
    /// Removes a fetch, so that no further request joins it.
    pub(super) fn take(&self, key: &str) -> Option<Outdated> {
        self.lock().remove(key).map(|fetch| fetch.outdated)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, RunningFetch>> {
        self.0.lock()
    }
}
