//! Output pattern: the KStreams paper's pushing order (section 3.1).

use super::pushing::PushingOrder;
use crate::framing::LONGEST;
use crate::secret::LONGEST_SHARED;

/// Distribution of records over outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPattern {
    /// One record to each output in turn.
    Stripe,
    /// This many bytes (at least 1) to each output in turn, independent of records; each such part is a
    /// record from then on.
    StripeBytes(usize),
    /// One record to a random output, each equally likely; the same seed gives the same order.
    Random {
        /// The seed.
        seed: u64,
    },
    /// Every record to all outputs.
    Mirror,
    /// One record to the output with the shortest wait, by its outbox and recent throughput.
    Capacity,
    /// One share of every record to each output. Any `threshold` outputs together recover the records, fewer
    /// nothing.
    Shares {
        /// Shares needed to recover a record, at least 1.
        threshold: u8,
    },
}

/// A built-in pattern, or a custom one.
pub(crate) enum Pattern {
    Shipped(OutputPattern),
    Custom(Box<dyn PushingOrder>),
}

impl From<OutputPattern> for Pattern {
    fn from(pattern: OutputPattern) -> Pattern {
        Pattern::Shipped(pattern)
    }
}

impl Pattern {
    /// Returns whether the stream continues without an output that failed.
    pub(crate) fn survives_outputs(&self) -> bool {
        match self {
            Pattern::Shipped(pattern) => matches!(pattern, OutputPattern::Mirror),
            Pattern::Custom(order) => order.survives_outputs(),
        }
    }

    /// Most bytes of a record, if the pattern can use only whole records.
    pub(crate) fn whole_records(&self) -> Option<usize> {
        match self {
            Pattern::Shipped(OutputPattern::Shares { .. }) => Some(LONGEST_SHARED),
            Pattern::Shipped(_) => None,
            Pattern::Custom(order) => (order.head_bytes() > 0).then_some(LONGEST),
        }
    }
}
