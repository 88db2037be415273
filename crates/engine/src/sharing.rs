use crate::scheduler::{Class, Policy, Round};

/// Sharing of a thread by its tasks, in turns. Each thread has its own scheduler.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// Division of turns between classes. The volume of a class is the number of bytes that its tasks move.
    pub policy: Policy,
    /// Classes of tasks. An empty list means a single class without limits. All tasks of a class with a rate
    /// run on the same thread, where the rate limits all of them together, unless
    /// [`Placement::thread`](crate::Placement::thread) selects another thread.
    pub classes: Vec<Class>,
}

impl Sharing {
    /// Returns whether classes share processor time. Turns are measured only then.
    pub fn is_of_processor_time(&self) -> bool {
        matches!(self.policy, Policy::FairShare { round: Round::ProcessorTime(_), .. })
    }
}
