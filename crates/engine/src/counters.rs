//! What engine threads count.

use wirepath_counters::{Gauge, LocalCounter, counters};

counters! {
    /// The counters of one engine thread, on cache lines of their own.
    #[repr(align(128))]
    pub(crate) struct ThreadCounters;
    /// What all engine threads counted since the engine was started.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Counters;

    /// Times that an engine thread slept and was woken.
    wakeups: LocalCounter,
    /// Turns of tasks.
    turns: LocalCounter,
    /// Bytes that tasks moved in their turns, in and out counted alike.
    moved_bytes: LocalCounter,
    /// Tasks that exist.
    tasks: Gauge,
    /// Units of load that tasks placed on the threads.
    load: Gauge,
}
