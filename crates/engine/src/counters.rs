//! What engine threads count.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The counters of one engine thread, on cache lines of their own: written by that thread, read by any.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounters {
    wakeups: AtomicU64,
    turns: AtomicU64,
    moved_bytes: AtomicU64,
    tasks: AtomicU64,
    /// Units of load on this thread. Added to by whoever places a task, so that the next task goes elsewhere.
    load: AtomicI64,
}

/// What all engine threads counted since the engine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times that a thread slept and was woken.
    pub wakeups: u64,
    /// Turns of tasks.
    pub turns: u64,
    /// Bytes that tasks moved in their turns, in and out.
    pub moved_bytes: u64,
    /// Tasks that exist.
    pub tasks: u64,
}

impl ThreadCounters {
    pub(crate) fn add_wakeup(&self) {
        self.wakeups.store(self.wakeups.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn add_turn(&self, moved_bytes: u64) {
        self.turns.store(self.turns.load(Relaxed) + 1, Relaxed);
        self.moved_bytes.store(self.moved_bytes.load(Relaxed).wrapping_add(moved_bytes), Relaxed);
    }

    pub(crate) fn add_task(&self) {
        self.tasks.fetch_add(1, Relaxed);
        self.add_load(1);
    }

    pub(crate) fn remove_task(&self) {
        self.tasks.fetch_sub(1, Relaxed);
        self.add_load(-1);
    }

    pub(crate) fn add_load(&self, units: i64) {
        self.load.fetch_add(units, Relaxed);
    }

    pub(crate) fn load(&self) -> i64 {
        self.load.load(Relaxed)
    }

    /// Adds what this thread counted to `total`.
    pub(crate) fn add_to(&self, total: &mut Counters) {
        total.wakeups += self.wakeups.load(Relaxed);
        total.turns += self.turns.load(Relaxed);
        total.moved_bytes = total.moved_bytes.wrapping_add(self.moved_bytes.load(Relaxed));
        total.tasks += self.tasks.load(Relaxed);
    }
}
