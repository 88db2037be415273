//! What may be set of a scheduler: how classes are weighed, and what each may cost.

/// How classes are weighed against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served; classes are only names.
    BestEffort,
    /// The class with the highest priority that has something to do.
    Priority,
    /// Rounds in which each class gets its share.
    FairShare {
        /// What is shared, and how much of it a round has if all classes use all of their share.
        round: Round,
        /// What a class may carry into the next round of what it left unused, in percent of its share of a
        /// round, at most 100. What it took too much is always carried over.
        carry_percent: u8,
    },
    /// Earliest deadline first, over all classes; what has none comes last. On an engine, tasks give theirs
    /// with [`Context::request_turn_by`](crate::Context::request_turn_by).
    Deadline,
}

/// What a round of [`Policy::FairShare`] has of what is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Volume, in bytes, as in the paper.
    Volume(u64),
    /// Processor time, in microseconds. On an engine that of the engine thread during turns: what is moved at
    /// little cost leaves more to others, whatever its volume.
    ProcessorTime(u64),
}

impl Round {
    /// In the unit of [`Cost::shared`](crate::Cost::shared).
    pub(super) fn cost(self) -> u64 {
        match self {
            Round::Volume(bytes) => bytes,
            Round::ProcessorTime(us) => us.saturating_mul(1000),
        }
    }
}

/// Streams that are treated alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Under [`Policy::Priority`]: higher goes first.
    pub priority: u8,
    /// Under [`Policy::FairShare`]: its part of the sum of all classes' shares. At least 1.
    pub share: u32,
    /// What all its streams together may cost, of what [`Cost::rated`](crate::Cost::rated) is.
    pub rate: Option<Rate>,
}

/// A limit: a long-term rate and what may come at once after a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Cost a second. At least 1.
    pub per_second: u64,
    /// Cost that may come at once. At least 1.
    pub burst: u64,
}
