//! Trait for the division of turns between classes, and the classes to choose from.

use std::cmp::Reverse;

use super::{Cost, Queue};

/// Division of turns between classes: KStreams' replaceable stream scheduler. The built-in policies implement
/// this trait, and [`Policy::custom`](crate::Policy::custom) accepts other implementations.
///
/// An engine thread asks its policy before each turn. Within a class, the task with the earliest deadline has
/// the turn; tasks without deadlines are served first come, first served. Rates apply whatever the policy
/// returns. Methods must not block.
pub trait TurnPolicy: Send {
    /// Returns the class with the next turn, which must be ready. At least one class is ready.
    fn next(&mut self, ready: &ReadyClasses<'_>) -> usize;

    /// Maximum number of bytes in a turn of this class, which has the next turn. A turn is limited to 256 KiB
    /// in any case.
    fn allowance(&self, _class: usize) -> u64 {
        u64::MAX
    }

    /// Notes the cost of a turn of this class.
    fn acted(&mut self, _class: usize, _cost: Cost) {}
}

/// Classes that have a ready task and whose rate is not used up.
pub struct ReadyClasses<'a> {
    queues: &'a [Queue],
    now_us: u64,
}

/// Class with a ready task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyClass {
    /// Number of the class: its index in [`Sharing::classes`](crate::Sharing::classes).
    pub class: usize,
    /// [Priority](crate::Class::priority) of the class.
    pub priority: u8,
    /// Earliest deadline of the ready tasks, in microseconds of CLOCK_MONOTONIC; `u64::MAX` if there is none.
    pub deadline_us: u64,
    /// Order in which the next task of the class became ready on this thread.
    pub arrival: u64,
}

impl<'a> ReadyClasses<'a> {
    pub(super) fn new(queues: &'a [Queue], now_us: u64) -> ReadyClasses<'a> {
        ReadyClasses { queues, now_us }
    }

    /// Ready classes, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = ReadyClass> {
        (0..self.queues.len()).filter_map(|class| self.get(class))
    }

    /// Returns a class, if it is ready.
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
