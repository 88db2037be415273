//! Orders of inputs, as words.

use std::str::FromStr;

use wirepath_streams::{InputOrder, Late, StreamBuilder};

use super::words::{number, seed_of, size, split, unknown};
use super::{RECORD, SpecError};

/// Records that wait for one another where the words do not say.
pub(super) const WINDOW: usize = 1024;

/// Bytes of records or shares that wait for others, unless said.
pub(super) const WAITING: usize = 64 << 20;

/// The order of inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderSpec {
    /// `arrival`, `roundrobin`, `random` or `random:SEED`
    Plain(InputOrder),
    /// `tag:OFFSET:BYTES`, `tag:OFFSET:BYTES:WINDOW` or `tag:OFFSET:BYTES:WINDOW:SIZE`: a number in the record, most significant byte
    /// first.
    Tag {
        /// Where it begins.
        offset: usize,
        /// Its bytes, 1 to 8.
        bytes: usize,
        /// Records that wait for one another.
        window: usize,
        /// Bytes of records that wait.
        waiting_bytes: usize,
    },
    /// `shares`, `shares:WINDOW` or `shares:WINDOW:SIZE`
    Shares {
        /// Records that wait for their shares.
        window: usize,
        /// Bytes of shares that wait.
        waiting_bytes: usize,
    },
}

impl OrderSpec {
    /// Sets it.
    pub(crate) fn apply(&self, builder: StreamBuilder) -> StreamBuilder {
        match *self {
            OrderSpec::Plain(order) => builder.order(order),
            OrderSpec::Tag { offset, bytes, window, waiting_bytes } => {
                builder.order_by_tag(window, waiting_bytes, Late::Drop, move |record| {
                    let tag = record.get(offset..offset.checked_add(bytes)?)?;
                    Some(tag.iter().fold(0, |tag, byte| tag << 8 | u64::from(*byte)))
                })
            }
            // So many of them suffice, and what is lost for want of others is counted.
            OrderSpec::Shares { window, waiting_bytes } => {
                builder.collect_shares(window, waiting_bytes).survive_inputs()
            }
        }
    }
}

impl FromStr for OrderSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<OrderSpec, SpecError> {
        let window = |text: Option<&&str>| text.map_or(Ok(WINDOW), |text| number(text, 1, 1 << 20));
        let waiting_bytes = |text: Option<&str>| text.map_or(Ok(WAITING), size);
        match split(text) {
            ("arrival", None) => Ok(OrderSpec::Plain(InputOrder::Arrival)),
            ("roundrobin", None) => Ok(OrderSpec::Plain(InputOrder::RoundRobin)),
            ("random", seed) => Ok(OrderSpec::Plain(InputOrder::Random { seed: seed_of(seed)? })),
            ("tag", Some(place)) => match &place.split(':').collect::<Vec<_>>()[..] {
                [offset, bytes, bounds @ ..] if bounds.len() <= 2 => {
                    let (offset, bytes) = (number(offset, 0, RECORD)?, number(bytes, 1, 8)?);
                    let (window, waiting_bytes) =
                        (window(bounds.first())?, waiting_bytes(bounds.get(1).copied())?);
                    Ok(OrderSpec::Tag { offset, bytes, window, waiting_bytes })
                }
                _ => Err(SpecError(format!("{text}: it is tag:OFFSET:BYTES[:WINDOW[:SIZE]]"))),
            },
            ("shares", bounds) => {
                let bounds = bounds.map(split);
                let (records, bytes) = (bounds.map(|bounds| bounds.0), bounds.and_then(|bounds| bounds.1));
                let (window, waiting_bytes) = (window(records.as_ref())?, waiting_bytes(bytes)?);
                Ok(OrderSpec::Shares { window, waiting_bytes })
            }
            _ => unknown(
                text,
                "order",
                "arrival, roundrobin, random[:SEED], tag:OFFSET:BYTES[:WINDOW[:SIZE]], shares[:WINDOW[:SIZE]]",
            ),
        }
    }
}
