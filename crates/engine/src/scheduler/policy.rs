//! Settings of a scheduler: policy, classes, rates.

use std::fmt;
use std::sync::Arc;

use super::turn_policy::TurnPolicy;

/// Division of turns between classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served; classes are only names.
    #[default]
    BestEffort,
    /// The class with the highest priority that has something to do.
    Priority,
    /// Rounds in which each class gets its share.
    FairShare {
        /// Shared quantity, and its amount in a round in which all classes use all of their share.
        round: Round,
        /// Unused share that a class may carry into the next round, in percent of its share of a round, at
        /// most 100. Overuse is always carried over.
        carry_percent: u8,
    },
    /// Earliest deadline first, over all classes; tasks without one come last. On an engine, tasks give
    /// theirs with [`Context::request_turn_by`](crate::Context::request_turn_by).
    Deadline,
    /// A policy of another's type; see [`Policy::custom`].
    Custom(CustomPolicy),
}

impl Policy {
    /// A policy of the caller's type. `make` is called once for each engine thread, by
    /// [`Engine::start`](crate::Engine::start), with the classes: each thread schedules its own tasks.
    ///
    /// A policy that panics or answers with a class that is not ready is replaced, on its thread, by
    /// [`Policy::BestEffort`]; that is logged and counted
    /// ([`Counters::policy_failures`](crate::Counters::policy_failures)). Tasks are not affected otherwise.
    pub fn custom(make: impl Fn(&[Class]) -> Box<dyn TurnPolicy> + Send + Sync + 'static) -> Policy {
        Policy::Custom(CustomPolicy(Arc::new(make)))
    }
}

/// Maker of a [`TurnPolicy`] for each engine thread. Equal to its clones only.
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
    /// Volume, in bytes, as in the paper.
    Volume(u64),
    /// Processor time, in microseconds: on an engine, that of the engine thread during turns. Cheap bytes
    /// leave more to others, whatever their volume.
    ProcessorTime(u64),
}

impl Round {
    /// Amount in the unit of [`Cost::shared`](crate::Cost::shared).
    pub(super) fn cost(self) -> u64 {
        match self {
            Round::Volume(bytes) => bytes,
            Round::ProcessorTime(us) => us.saturating_mul(1000),
        }
    }
}

/// Tasks that are treated alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Under [`Policy::Priority`]: higher goes first.
    pub priority: u8,
    /// Under [`Policy::FairShare`]: its part of the sum of all classes' shares. At least 1.
    pub share: u32,
    /// Limit of all its tasks together, in the unit of [`Cost::rated`](crate::Cost::rated).
    pub rate: Option<Rate>,
}

/// A limit: a long-term rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Cost a second. At least 1.
    pub per_second: u64,
    /// Cost that may come at once. At least 1.
    pub burst: u64,
}
