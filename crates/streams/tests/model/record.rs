//! Records that carry their origin and a checksum.
//!
//! Format: length in two bytes (RFC 4571); number of the feed, of the record in its feed, and of the record
//! among all, in four bytes each; payload derived from these; a CRC-32C of everything before.

use std::collections::BTreeMap;

use wirepath_streams::Framing;

use crate::dice::Dice;

/// Bytes of a record in addition to the payload.
const FRAME: usize = 2 + 3 * 4 + 4;

/// Smallest size of records that move without copies.
const LARGE: usize = 32 * 1024;

/// Offset of the tag, which is the number of the record among all records.
const TAG: usize = 10;

/// A received record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) feed: u32,
    pub(crate) index: u32,
    pub(crate) tag: u32,
    pub(crate) bytes: usize,
}

/// A record with a payload of this length.
pub(crate) fn record(feed: u32, index: u32, tag: u32, length: usize) -> Vec<u8> {
    let mut record = ((FRAME - 2 + length) as u16).to_be_bytes().to_vec();
    [feed, index, tag].iter().for_each(|word| record.extend(word.to_be_bytes()));
    record.extend((0..length).map(|at| (feed.wrapping_mul(31) ^ index.wrapping_mul(7) ^ at as u32) as u8));
    record.extend(crc32c::crc32c(&record).to_be_bytes());
    record
}

/// Sizes of the records of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sizes {
    /// All the same, and large.
    Fixed(usize),
    Small,
    /// Large ones among small ones.
    Mixed,
}

impl Sizes {
    pub(crate) fn any(dice: &mut Dice, is_fixed: bool) -> Sizes {
        match (is_fixed, dice.one_in(2)) {
            (true, _) => Sizes::Fixed(any_large(dice)),
            (false, true) => Sizes::Mixed,
            (false, false) => Sizes::Small,
        }
    }

    pub(crate) fn framing(self) -> Framing {
        match self {
            Sizes::Fixed(bytes) => Framing::Fixed(bytes),
            Sizes::Small | Sizes::Mixed => Framing::rtp(),
        }
    }

    /// Length of the payload of the next record.
    pub(crate) fn any_length(self, dice: &mut Dice) -> usize {
        match self {
            Sizes::Fixed(bytes) => bytes - FRAME,
            Sizes::Mixed if !dice.one_in(3) => any_large(dice) - FRAME,
            Sizes::Small | Sizes::Mixed => dice.below(3000),
        }
    }

    /// Number of bytes to write or read at once: more for larger records.
    pub(crate) fn some_bytes(self, dice: &mut Dice, most: usize) -> usize {
        1 + dice.below(if matches!(self, Sizes::Small) { most } else { 10 * most })
    }
}

fn any_large(dice: &mut Dice) -> usize {
    LARGE + dice.below(20_000)
}

/// The tag of a record.
pub(crate) fn tag(record: &[u8]) -> Option<u64> {
    Some(word(record.get(TAG..TAG + 4)?).into())
}

/// All records in these bytes, and the number of bytes of a truncated record after them.
pub(crate) fn records(who: &str, bytes: &[u8]) -> (Vec<Found>, usize) {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let Some(record) = whole_in_front(rest) {
        let (inner, checksum) = record.split_at(record.len() - 4);
        assert_eq!(crc32c::crc32c(inner), word(checksum), "{who}: other bytes behind {:?}", found.last());
        let [feed, index, tag] = [2, 6, TAG].map(|at| word(&record[at..at + 4]));
        found.push(Found { feed, index, tag, bytes: record.len() });
        rest = &rest[record.len()..];
    }
    (found, rest.len())
}

/// The records in these bytes, none of which is truncated.
pub(crate) fn in_front(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let record = whole_in_front(bytes)?;
        bytes = &bytes[record.len()..];
        Some(record)
    })
}

/// Checks that the records of each feed are consecutive; with `gaps`, only that they are in order.
pub(crate) fn assert_in_order(who: &str, found: &[Found], gaps: bool) {
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for record in found {
        if let Some(before) = last.insert(record.feed, record.index) {
            let follows = if gaps { record.index > before } else { record.index == before + 1 };
            assert!(follows, "{who}: record {} of feed {} behind {before}", record.index, record.feed);
        }
    }
}

fn whole_in_front(bytes: &[u8]) -> Option<&[u8]> {
    let length = 2 + usize::from(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]));
    assert!(length >= FRAME, "a record of {length} bytes");
    bytes.get(..length)
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
