//! The pattern by which records are spread: the KStreams paper's pushing order (section 3.1).

/// How records are spread over outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPattern {
    /// A record to each in turn.
    Stripe,
    /// So many bytes (at least 1) to each in turn, whatever records there are; each such part is a record
    /// from then on.
    StripeBytes(usize),
    /// A record to one at random, each equally likely; the same seed gives the same order.
    Random {
        /// The seed.
        seed: u64,
    },
    /// Every record to all.
    Mirror,
    /// A record to the one that will be done with it first, by what waits for it and what it took lately.
    Capacity,
    /// A share of every record to each. Any so many outputs together (at least 1) have the records, fewer
    /// have nothing.
    Shares {
        /// How many.
        threshold: u8,
    },
}
