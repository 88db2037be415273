//! Orders of inputs, as strings.

use std::str::FromStr;

use wirepath_streams::{InputOrder, Late, StreamBuilder};

use super::parse::{number, seed_of, size, split, unknown};
use super::{MAX_RECORD, SpecError};

/// Default number of records that wait for one another.
pub(super) const WINDOW: usize = 1024;

/// Default bytes of records or shares that wait for others.
pub(super) const WAITING_BYTES: usize = 64 << 20;

/// Form of the order by shares.
const SHARES: &str = "shares:THRESHOLD[:WINDOW[:SIZE]]";

/// Order of inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderSpec {
    /// `arrival`, `roundrobin`, `random` or `random:SEED`
    Plain(InputOrder),
    /// `tag:OFFSET:BYTES[:WINDOW[:SIZE]]`: by a big-endian number in each record.
    Tag {
        /// Offset of the number.
        offset: usize,
        /// Bytes of the number, 1 to 8.
        bytes: usize,
        /// Maximum number of records that wait for one another.
        window: usize,
        /// Maximum bytes of records that wait.
        waiting_bytes: usize,
    },
    /// `shares:THRESHOLD[:WINDOW[:SIZE]]`: records are put together from shares.
    Shares {
        /// Shares that restore a record, 1 to 255; others are refused.
        threshold: u8,
        /// Maximum number of records that wait for shares.
        window: usize,
        /// Maximum bytes of shares that wait.
        waiting_bytes: usize,
    },
}

impl OrderSpec {
    pub(crate) fn apply(&self, builder: StreamBuilder) -> StreamBuilder {
        match *self {
            OrderSpec::Plain(order) => builder.order(order),
            OrderSpec::Tag { offset, bytes, window, waiting_bytes } => {
                builder.order_by_tag(window, waiting_bytes, Late::Drop, move |record| {
                    let tag = record.get(offset..offset.checked_add(bytes)?)?;
                    Some(tag.iter().fold(0, |tag, byte| tag << 8 | u64::from(*byte)))
                })
            }
            // A threshold of shares suffices, so an input may fail; lost records are counted.
            OrderSpec::Shares { threshold, window, waiting_bytes } => {
                builder.collect_shares(threshold, window, waiting_bytes).survive_inputs()
            }
        }
    }
}

impl FromStr for OrderSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<OrderSpec, SpecError> {
        let window = |text: Option<&&str>| text.map_or(Ok(WINDOW), |text| number(text, 1, 1 << 20));
        let waiting_bytes = |text: Option<&str>| text.map_or(Ok(WAITING_BYTES), size);
        match split(text) {
            ("arrival", None) => Ok(OrderSpec::Plain(InputOrder::Arrival)),
            ("roundrobin", None) => Ok(OrderSpec::Plain(InputOrder::RoundRobin)),
            ("random", seed) => Ok(OrderSpec::Plain(InputOrder::Random { seed: seed_of(seed)? })),
            ("tag", Some(place)) => match &place.split(':').collect::<Vec<_>>()[..] {
                [offset, bytes, bounds @ ..] if bounds.len() <= 2 => {
                    let (offset, bytes) = (number(offset, 0, MAX_RECORD)?, number(bytes, 1, 8)?);
                    let (window, waiting_bytes) =
                        (window(bounds.first())?, waiting_bytes(bounds.get(1).copied())?);
                    Ok(OrderSpec::Tag { offset, bytes, window, waiting_bytes })
                }
                _ => {
                    Err(SpecError(format!("invalid order {text}: expected tag:OFFSET:BYTES[:WINDOW[:SIZE]]")))
                }
            },
            ("shares", Some(bounds)) => match &bounds.splitn(3, ':').collect::<Vec<_>>()[..] {
                [threshold, bounds @ ..] => {
                    let threshold = number(threshold, 1, 255)? as u8;
                    let (window, waiting_bytes) =
                        (window(bounds.first())?, waiting_bytes(bounds.get(1).copied())?);
                    Ok(OrderSpec::Shares { threshold, window, waiting_bytes })
                }
                [] => Err(SpecError(format!("invalid order {text}: expected {SHARES}"))),
            },
            ("shares" | "shares:", None) => {
                Err(SpecError(format!("shares needs the threshold with which they were made: {SHARES}")))
            }
            _ => unknown(
                text,
                "order",
                "arrival, roundrobin, random[:SEED], tag:OFFSET:BYTES[:WINDOW[:SIZE]], \
                 shares:THRESHOLD[:WINDOW[:SIZE]]",
            ),
        }
    }
}
