//! Input order: the KStreams paper's polling order (section 3.1).

use bytes::BytesMut;

use super::Tag;
use super::arrival::Arrivals;
use super::join::Join;
use super::merge::{Late, Merge};
use super::polling::PollingOrder;
use crate::record::Run;
use crate::secret::Collector;
use crate::turns::Turns;

/// Order in which inputs give records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputOrder {
    /// One record from each input in turn.
    RoundRobin,
    /// One record from a random input, each equally likely; the same seed gives the same order.
    Random {
        /// The seed.
        seed: u64,
    },
    /// A record from any input that has one; the input then moves behind the others.
    Arrival,
}

pub(crate) enum Order {
    Turns(Turns),
    /// By arrival, or by a custom order of ready inputs.
    Arrival(Arrivals),
    Tags {
        tag: Box<Tag>,
        merge: Merge<Run<BytesMut>>,
    },
    Shares(Collector),
    Join(Join),
}

impl Order {
    pub(crate) fn of(order: InputOrder) -> Order {
        match order {
            InputOrder::RoundRobin => Order::Turns(Turns::round_robin()),
            InputOrder::Random { seed } => Order::Turns(Turns::random(seed)),
            InputOrder::Arrival => Order::Arrival(Arrivals::default()),
        }
    }

    pub(crate) fn custom(order: Box<dyn PollingOrder>) -> Order {
        Order::Arrival(Arrivals::with(order))
    }

    pub(crate) fn by_tag(tag: Box<Tag>, window: usize, waiting_bytes: usize, late: Late) -> Order {
        Order::Tags { tag, merge: Merge::new(window, waiting_bytes, late) }
    }

    pub(crate) fn of_shares(threshold: u8, window: usize, waiting_bytes: usize) -> Order {
        Order::Shares(Collector::new(threshold, window, waiting_bytes))
    }

    /// Joins by position if `key` is None.
    pub(crate) fn joined(key: Option<Box<Tag>>, window: usize, waiting_bytes: usize) -> Order {
        Order::Join(Join::new(key, window, waiting_bytes))
    }

    /// Returns whether the order can use only whole records.
    pub(crate) fn needs_whole_records(&self) -> bool {
        matches!(self, Order::Tags { .. } | Order::Shares(_) | Order::Join(_))
    }
}
