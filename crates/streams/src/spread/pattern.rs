//! Output pattern: the KStreams paper's pushing order (section 3.1).

/// Distribution of records over outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPattern {
    /// A record to each in turn.
    Stripe,
    /// This many bytes (at least 1) to each in turn, whatever their records; each such part is a record from
    /// then on.
    StripeBytes(usize),
    /// A record to one at random, each equally likely; the same seed gives the same order.
    Random {
        /// The seed.
        seed: u64,
    },
    /// Every record to all.
    Mirror,
    /// A record to the one with the shortest wait, by its outbox and recent throughput.
    Capacity,
    /// A share of every record to each. Any `threshold` outputs together recover the records, fewer nothing.
    Shares {
        /// Shares needed to recover a record, at least 1.
        threshold: u8,
    },
}
