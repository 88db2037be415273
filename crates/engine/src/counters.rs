//! Counters of engine threads.

use std::sync::Arc;

use wirepath_counters::{Gauge, LocalCounter, LocalTime, counters};

counters! {
    /// Counters of one engine thread, on cache lines of their own.
    #[repr(align(128))]
    pub(crate) struct ThreadCounters;
    /// Counters of all engine threads since the engine was started.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Counters;

    /// Times that an engine thread slept and was woken.
    wakeups: LocalCounter,
    /// Time that engine threads were awake, including time while preempted.
    awake_seconds: LocalTime,
    /// Turns of tasks.
    turns: LocalCounter,
    /// Bytes that tasks moved in their turns, in and out counted alike.
    moved_bytes: LocalCounter,
    /// Scheduling policies that failed and were replaced by best effort.
    policy_failures: LocalCounter,
    /// Tasks that exist.
    tasks: Gauge,
    /// Load on the threads in units: one for each task, plus units that tasks added.
    load: Gauge,
}

/// Task on an engine thread, counted until this is dropped: also if its thread panics.
pub(crate) struct TaskUnit {
    counters: Arc<ThreadCounters>,
    _load: LoadUnit,
}

impl TaskUnit {
    pub(crate) fn new(counters: &Arc<ThreadCounters>) -> TaskUnit {
        counters.tasks.increment();
        TaskUnit { counters: Arc::clone(counters), _load: LoadUnit::new(counters) }
    }
}

impl Drop for TaskUnit {
    fn drop(&mut self) {
        self.counters.tasks.decrement();
    }
}

/// Unit of load on an engine thread, from [`Engine::add_load`](crate::Engine::add_load) until this is
/// dropped.
#[derive(Debug)]
pub struct LoadUnit(Arc<ThreadCounters>);

impl Clone for LoadUnit {
    /// Counts another unit on the same thread.
    fn clone(&self) -> LoadUnit {
        LoadUnit::new(&self.0)
    }
}

impl LoadUnit {
    pub(crate) fn new(counters: &Arc<ThreadCounters>) -> LoadUnit {
        counters.load.increment();
        LoadUnit(Arc::clone(counters))
    }
}

impl Drop for LoadUnit {
    fn drop(&mut self) {
        self.0.load.decrement();
    }
}
