use crate::scheduler::{Class, Policy, Round};

/// Sharing of a thread by tasks, in turns. Each thread has a scheduler of its own.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// Division of turns between classes. Volume is the bytes that tasks move.
    pub policy: Policy,
    /// The classes; none stands for one class without limits. All tasks of a class with a rate are on one
    /// thread, where the rate holds for all of them, unless [`Placement::thread`](crate::Placement::thread)
    /// says otherwise.
    pub classes: Vec<Class>,
}

impl Sharing {
    /// Returns whether classes share processor time: only then are turns measured.
    pub fn is_of_processor_time(&self) -> bool {
        matches!(self.policy, Policy::FairShare { round: Round::ProcessorTime(_), .. })
    }
}
