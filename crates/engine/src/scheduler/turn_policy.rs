//! Division of turns between classes: the trait, and the classes to choose from.

use std::cmp::Reverse;

use super::{Cost, Queue};

/// Division of turns between classes: KStreams' replaceable stream scheduler. The engine's own policies are
/// of this trait, and [`Policy::custom`](crate::Policy::custom) takes those of others.
///
/// An engine thread asks its policy before each turn. Within a class, the task with the earliest deadline has
/// the turn, and among tasks without one the first that came. Rates hold whatever the policy answers. No
/// method may block.
pub trait TurnPolicy: Send {
    /// The class with the next turn: one of those that are ready, which are at least one.
    fn next(&mut self, ready: &ReadyClasses<'_>) -> usize;

    /// Most bytes of a turn of this class, which has the next one. A turn ends after 256 KiB in any case.
    fn allowance(&self, _class: usize) -> u64 {
        u64::MAX
    }

    /// Notes what a turn of this class cost.
    fn acted(&mut self, _class: usize, _cost: Cost) {}
}

/// Classes that have a ready task and whose rate is not used up.
pub struct ReadyClasses<'a> {
    queues: &'a [Queue],
    now_us: u64,
}

/// Class that has a ready task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyClass {
    /// Its number: its place in [`Sharing::classes`](crate::Sharing::classes).
    pub class: usize,
    /// Its [priority](crate::Class::priority).
    pub priority: u8,
    /// Earliest deadline of its ready tasks, in microseconds of CLOCK_MONOTONIC; `u64::MAX` without one.
    pub deadline_us: u64,
    /// Order in which the task that has the class's next turn became ready, on this thread.
    pub arrival: u64,
}

impl<'a> ReadyClasses<'a> {
    pub(super) fn new(queues: &'a [Queue], now_us: u64) -> ReadyClasses<'a> {
        ReadyClasses { queues, now_us }
    }

    /// Ready classes by their number.
    pub fn iter(&self) -> impl Iterator<Item = ReadyClass> {
        (0..self.queues.len()).filter_map(|class| self.get(class))
    }

    /// A class, if it is ready.
    pub fn get(&self, class: usize) -> Option<ReadyClass> {
        let queue = self.queues.get(class)?;
        let Reverse((deadline_us, arrival, _)) = *queue.ready.peek()?;
        let is_ready = queue.bucket.as_ref().is_none_or(|bucket| bucket.open_us() <= self.now_us);
        is_ready.then_some(ReadyClass { class, priority: queue.priority, deadline_us, arrival })
    }

    /// Time of this turn, in microseconds of CLOCK_MONOTONIC.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }
}
