//! Settings of a scheduler: policy, classes and rates.

use std::fmt;
use std::sync::Arc;

use super::turn_policy::TurnPolicy;

/// Division of turns between classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served. Classes have only names.
    #[default]
    BestEffort,
    /// Strict priority: the ready class with the highest priority goes first.
    Priority,
    /// Fair shares: rounds in which each class gets its share.
    FairShare {
        /// Shared quantity, and its amount in a round if all classes use their shares completely.
        round: Round,
        /// Unused share that a class may carry into the next round, in percent of its share of a round, at
        /// most 100. Overuse is always carried over in full.
        carry_percent: u8,
    },
    /// Earliest deadline first, over all classes. Tasks without a deadline come last. Tasks of an engine set
    /// deadlines with [`Context::request_turn_by`](crate::Context::request_turn_by).
    Deadline,
    /// Custom policy, see [`Policy::custom`].
    Custom(CustomPolicy),
}

impl Policy {
    /// Makes a custom policy. `make` is called once for each engine thread, by
    /// [`Engine::start`](crate::Engine::start), with the classes: each thread schedules its own tasks.
    ///
    /// If a policy panics or returns a class that is not ready, its thread replaces it by
    /// [`Policy::BestEffort`]. The replacement is logged and counted
    /// ([`Counters::policy_failures`](crate::Counters::policy_failures)), and tasks are not affected
    /// otherwise.
    pub fn custom(make: impl Fn(&[Class]) -> Box<dyn TurnPolicy> + Send + Sync + 'static) -> Policy {
        Policy::Custom(CustomPolicy(Arc::new(make)))
    }
}

/// Factory of a [`TurnPolicy`] for each engine thread. Equal only to its clones.
#[derive(Clone)]
pub struct CustomPolicy(Arc<MakePolicy>);

type MakePolicy = dyn Fn(&[Class]) -> Box<dyn TurnPolicy> + Send + Sync;

impl CustomPolicy {
    pub(super) fn make(&self, classes: &[Class]) -> Box<dyn TurnPolicy> {
        (self.0)(classes)
    }
}

impl fmt::Debug for CustomPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CustomPolicy")
    }
}

impl PartialEq for CustomPolicy {
    fn eq(&self, other: &CustomPolicy) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CustomPolicy {}

/// Shared quantity of a [`Policy::FairShare`], and its amount in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Volume in bytes, as in the paper.
    Volume(u64),
    /// Processor time in microseconds: the time of the engine thread in turns. Bytes that cost little time
    /// leave more time to others, whatever their number.
    ProcessorTime(u64),
}

impl Round {
    /// Amount of a round in the unit of [`Cost::shared`](crate::Cost::shared).
    pub(super) fn cost(self) -> u64 {
        match self {
            Round::Volume(bytes) => bytes,
            Round::ProcessorTime(us) => us.saturating_mul(1000),
        }
    }
}

/// Class of tasks that are treated alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Name of the class.
    pub name: String,
    /// Priority under [`Policy::Priority`]. A higher value goes first.
    pub priority: u8,
    /// Share under [`Policy::FairShare`], relative to the sum of the shares of all classes. At least 1.
    pub share: u32,
    /// Limit of all tasks of the class together, in the unit of [`Cost::rated`](crate::Cost::rated).
    pub rate: Option<Rate>,
}

/// Rate limit: a long-term rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Cost per second. At least 1.
    pub per_second: u64,
    /// Cost that may be spent at once. At least 1.
    pub burst: u64,
}
