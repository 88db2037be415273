//! Running fetches, their outcomes, and the flag that marks a fetch as outdated.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::answer::{Served, Source};
use super::head::Refusal;

/// Running fetches by key.
#[derive(Default)]
pub(super) struct Fetches(Mutex<HashMap<Arc<str>, RunningFetch>>);

pub(super) struct RunningFetch {
    pub(super) outcome: OutcomeSender,
    pub(super) outdated: Outdated,
}

/// Outcome of a fetch, known when the head of the origin's response is received.
#[derive(Clone)]
pub(super) enum Outcome {
    /// An entry, whose body may still be growing.
    Served(Served, Source),
    /// The response cannot be stored.
    NotStored,
    Failed(Refusal),
}

pub(super) type OutcomeReceiver = watch::Receiver<Option<Outcome>>;
pub(super) type OutcomeSender = watch::Sender<Option<Outcome>>;

/// True if the resource may have changed since the origin was asked. The response is then delivered to the
/// waiting requests, and not stored. Locked while the file of a body is renamed, so only for threads that may
/// wait for storage.
#[derive(Clone, Default)]
pub(super) struct Outdated(Arc<Mutex<bool>>);

impl Outdated {
    pub(super) fn set(&self) {
        *self.0.lock() = true;
    }

    /// Runs `act` unless the fetch is outdated. The fetch cannot become outdated while `act` runs.
    pub(super) fn unless<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let is_outdated = self.0.lock();
        (!*is_outdated).then(act)
    }
}

impl Fetches {
    /// Removes a fetch from the list, so that no further request joins it.
    pub(super) fn take(&self, key: &str) -> Option<Outdated> {
        self.lock().remove(key).map(|fetch| fetch.outdated)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, RunningFetch>> {
        self.0.lock()
    }
}
