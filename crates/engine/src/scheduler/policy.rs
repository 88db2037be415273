//! Settings of a scheduler: policy, classes, rates.

/// Division of turns between classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
}

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
