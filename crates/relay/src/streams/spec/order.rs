//! Orders of inputs, parsed from strings.

use std::str::FromStr;

use wirepath_streams::{InputOrder, Late, StreamBuilder};

use super::parse::{number, seed_of, size, split, unknown};
use super::{MAX_RECORD, SpecError};

/// Default number of records that wait for others.
pub(super) const WINDOW: usize = 1024;

/// Default number of bytes of records or shares that wait for others.
pub(super) const WAITING_BYTES: usize = 64 << 20;

/// Syntax of the order that joins portions by key.
const JOIN_KEY: &str = "join-key:OFFSET:BYTES[:WINDOW[:SIZE]]";

/// Syntax of the order that combines shares.
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
        /// Maximum number of records that wait for others.
        window: usize,
        /// Maximum bytes of records that wait.
        waiting_bytes: usize,
    },
    /// `join[:WINDOW[:SIZE]]`: the n-th portion of each input makes the n-th record.
    /// `join-key:OFFSET:BYTES[:WINDOW[:SIZE]]`: portions with one number make a record.
    Join {
        /// Offset and length of the number, 1 to 8 bytes; None joins by position.
        key: Option<(usize, usize)>,
        /// Maximum number of records that wait for portions.
        window: usize,
        /// Maximum bytes of portions that wait.
        waiting_bytes: usize,
    },
    /// `shares:THRESHOLD[:WINDOW[:SIZE]]`: records are restored from shares.
    Shares {
        /// Number of shares that restore a record, 1 to 255. Shares with another threshold are refused.
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
                builder.order_by_tag(window, waiting_bytes, Late::Drop, number_at(offset, bytes))
            }
            OrderSpec::Join { key: None, window, waiting_bytes } => builder.join(window, waiting_bytes),
            OrderSpec::Join { key: Some((offset, bytes)), window, waiting_bytes } => {
                builder.join_by_key(window, waiting_bytes, number_at(offset, bytes))
            }
            // A threshold of shares suffices, so an input may fail. Lost records are counted.
            OrderSpec::Shares { threshold, window, waiting_bytes } => {
                builder.collect_shares(threshold, window, waiting_bytes).survive_inputs()
            }
        }
    }
}

/// Reads a big-endian number from a record.
fn number_at(offset: usize, bytes: usize) -> impl FnMut(&[u8]) -> Option<u64> {
    move |record| {
        let number = record.get(offset..offset.checked_add(bytes)?)?;
        Some(number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
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
            ("join", bounds) => match &bounds.unwrap_or("").split(':').collect::<Vec<_>>()[..] {
                [""] => Ok(OrderSpec::Join { key: None, window: WINDOW, waiting_bytes: WAITING_BYTES }),
                bounds if bounds.len() <= 2 => {
                    let (window, waiting_bytes) =
                        (window(bounds.first())?, waiting_bytes(bounds.get(1).copied())?);
                    Ok(OrderSpec::Join { key: None, window, waiting_bytes })
                }
                _ => Err(SpecError(format!(
                    "invalid order {text}: expected join[:WINDOW[:SIZE]] or {JOIN_KEY}"
                ))),
            },
            ("join-key", Some(place)) => match &place.split(':').collect::<Vec<_>>()[..] {
                [offset, bytes, bounds @ ..] if bounds.len() <= 2 => {
                    let key = Some((number(offset, 0, MAX_RECORD)?, number(bytes, 1, 8)?));
                    let (window, waiting_bytes) =
                        (window(bounds.first())?, waiting_bytes(bounds.get(1).copied())?);
                    Ok(OrderSpec::Join { key, window, waiting_bytes })
                }
                _ => Err(SpecError(format!("invalid order {text}: expected {JOIN_KEY}"))),
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
                 join[:WINDOW[:SIZE]], join-key:OFFSET:BYTES[:WINDOW[:SIZE]], shares:THRESHOLD[:WINDOW[:SIZE]]",
            ),
        }
    }
}
