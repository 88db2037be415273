//! What may be set of a scheduler: how classes are weighed, and what each may cost.

/// How classes are weighed against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served; classes are only names.
    BestEffort,
    /// The class with the highest priority that has something to do.
    Priority,
    /// Rounds in which each class gets its share of a volume.
    FairShare {
        /// What a round costs if all classes use all of their share.
        round: u64,
        /// What a class may carry into the next round of what it left unused, in percent of its share of a round, at most 100. What
        /// it took too much is always carried over.
        carry_percent: u8,
    },
    /// Earliest deadline first, over all classes; what has none comes last. On an engine, streams have those of
    /// [`StreamOptions`](crate::StreamOptions), and downloads none.
    Deadline,
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
    /// What all its streams together may cost.
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
