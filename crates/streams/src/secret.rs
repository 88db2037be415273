//! Secret sharing: records are spread over outputs such that any `threshold` of them recover the records, and
//! fewer tell nothing but their lengths (Shamir, "How to share a secret", 1979; KStreams, section 3.1: "in
//! order to confuse potential attackers").
//!
//! A share is a record of its own: version 2, threshold, number of the share; the length of the record in
//! three bytes, then its number in six, most significant first; then as many bytes as the record has. So a
//! share that was cut, where its sender died, is known for one without the others.

use std::collections::BTreeMap;

use blahaj::{Share, Sharks};
use bytes::{BufMut, Bytes, BytesMut};

use crate::framing::LONGEST;

const VERSION: u8 = 2;

/// Bytes of a record's length, and of its number, in the header.
const LENGTH_BYTES: usize = 3;
const NUMBER_BYTES: usize = 6;

/// Most bytes of a record that is shared: the receiver needs whole shares, which are longer.
pub(crate) const LONGEST_SHARED: usize = LONGEST - SHARE_HEADER;

/// Bytes in front of a share.
pub const SHARE_HEADER: usize = 12;

/// Most shares of a record: a share's number is a byte and not 0.
pub const MOST_SHARES: usize = 255;

/// Error of a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// The bytes are not a share.
    #[error("invalid share: {0}")]
    NoShare(&'static str),
    /// The share ends before its length.
    #[error("incomplete share: {came} of {length} bytes came")]
    Cut {
        /// Bytes that came.
        came: usize,
        /// Bytes of the whole share; of the header, if that is incomplete.
        length: usize,
    },
}

#[derive(Debug)]
pub(crate) struct SecretSplitter {
    pub(crate) threshold: u8,
    next: u64,
}

impl SecretSplitter {
    /// Splitter with a threshold of at least 1.
    pub(crate) fn new(threshold: u8) -> SecretSplitter {
        SecretSplitter { threshold: threshold.max(1), next: 0 }
    }

    /// Shares of the next record, `count` of them, at most [`MOST_SHARES`].
    pub(crate) fn split(&mut self, record: &[u8], count: usize) -> Vec<Bytes> {
        let number = self.next;
        self.next += 1;
        let shares = Sharks(self.threshold).dealer(record).take(count.min(MOST_SHARES));
        shares.map(|share| self.pack(number, &share)).collect()
    }

    fn pack(&self, number: u64, share: &Share) -> Bytes {
        let bytes = Vec::from(share); // its number, then the bytes
        let mut packed = BytesMut::with_capacity(SHARE_HEADER + bytes.len());
        packed.put_slice(&[VERSION, self.threshold, bytes[0]]);
        packed.put_uint(bytes.len() as u64 - 1, LENGTH_BYTES);
        packed.put_uint(number, NUMBER_BYTES);
        packed.put_slice(&bytes[1..]);
        packed.freeze()
    }
}

/// Combines shares.
#[derive(Debug)]
pub(crate) struct Collector {
    /// Shares of incomplete records, by the number of the record.
    open: BTreeMap<u64, Candidates>,
    /// Their bytes.
    pub(crate) bytes: usize,
    /// Most records that wait for shares.
    window: usize,
    /// Most bytes that wait.
    most_bytes: usize,
    /// The number of the record that goes next.
    next: u64,
    pub(crate) counts: ShareCounts,
    /// Bytes of shares whose records were given up.
    pub(crate) lost_bytes: u64,
}

/// Shares of one record, in sets that agree in threshold and length: a set of `threshold` shares is the record.
#[derive(Debug, Default)]
struct Candidates(Vec<Vec<Bytes>>);

/// Counts of combining shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// Records given up, because too few of their shares came, or none.
    pub lost: u64,
    /// Shares that came too late, or twice.
    pub spare: u64,
    /// Shares that an input ended within, or that did not agree with those that the record was recovered
    /// from.
    pub damaged: u64,
}

/// Header of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    threshold: u8,
    /// Number of the record.
    number: u64,
}

impl Collector {
    /// At most `window` records (at least 1) of `most_bytes` (at least 1) in all wait for shares.
    pub(crate) fn new(window: usize, most_bytes: usize) -> Collector {
        let counts = ShareCounts::default();
        let (window, most_bytes) = (window.max(1), most_bytes.max(1));
        Collector { open: BTreeMap::new(), bytes: 0, window, most_bytes, next: 0, counts, lost_bytes: 0 }
    }

    /// The first record of which a share waits.
    pub(crate) fn first(&self) -> Option<u64> {
        self.open.first_key_value().map(|(number, _)| *number)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < self.window && self.bytes < self.most_bytes
    }

    pub(crate) fn is_overfull(&self) -> bool {
        self.open.len() > self.window || self.bytes > self.most_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds a share of an input that brings none of a record before `least`; returns the number of its record.
    pub(crate) fn offer(&mut self, share: &[u8], least: u64) -> Result<u64, ShareError> {
        let Header { number, threshold } = Header::read(share)?;
        let is_spare =
            number < self.next.max(least) || !self.open.entry(number).or_default().add(share, threshold);
        if is_spare {
            self.counts.spare += 1;
        } else {
            self.bytes += share.len();
        }
        Ok(number)
    }

    /// Counts a share that its input ended within.
    pub(crate) fn note_cut(&mut self, bytes: usize) {
        self.counts.damaged += 1;
        self.lost_bytes += bytes as u64;
    }

    /// The next record, if it can be recovered. Those before it that cannot any more are given up: `behind`
    /// is the number of inputs that may still bring a share of a record, which is unknown of datagrams.
    pub(crate) fn take(&mut self, has_datagrams: bool, behind: impl Fn(u64) -> usize) -> Option<Bytes> {
        loop {
            let (&number, candidates) = self.open.first_key_value()?;
            let (lacks, threshold) = candidates.lacks();
            let (is_complete, is_next) = (lacks == 0, number == self.next);
            // Records before it, of which no share came, are taken to be of its kind.
            let is_awaited =
                !is_next && behind(number - 1) >= threshold || !is_complete && behind(number) >= lacks;
            let may_come = is_awaited || has_datagrams && !self.is_overfull();
            if may_come && !(is_complete && is_next) {
                return None;
            }
            self.counts.lost += number - self.next;
            self.next = number + 1;
            let (_, candidates) = self.open.pop_first()?;
            if let Some(record) = self.recover(candidates) {
                return Some(record);
            }
        }
    }

    /// Recovers a record; None, and counted, if there are too few shares that agree.
    fn recover(&mut self, Candidates(mut sets): Candidates) -> Option<Bytes> {
        let bytes = |sets: &[Vec<Bytes>]| sets.iter().flatten().map(Bytes::len).sum::<usize>();
        self.bytes -= bytes(&sets);
        // Of several complete sets, the one that took the most inputs to make.
        let complete = (0..sets.len()).filter(|place| lacks(&sets[*place]) == 0);
        let chosen = complete.max_by_key(|place| sets[*place].len());
        let record = chosen.and_then(|place| Some((recover(&sets[place])?, sets.swap_remove(place))));
        self.lost_bytes += bytes(&sets) as u64;
        let Some((record, _)) = record else {
            self.counts.lost += 1;
            return None;
        };
        self.counts.damaged += sets.iter().map(Vec::len).sum::<usize>() as u64;
        Some(record)
    }
}

impl Candidates {
    /// Adds a share. Returns false if it is not needed.
    fn add(&mut self, share: &[u8], threshold: u8) -> bool {
        let agrees = |set: &&mut Vec<Bytes>| set[0][1] == threshold && set[0].len() == share.len();
        // A slice would keep all that was read with it.
        let kept = || Bytes::copy_from_slice(share);
        match self.0.iter_mut().find(agrees) {
            None => self.0.push(vec![kept()]),
            Some(set) if lacks(set) == 0 || set.iter().any(|other| other[2] == share[2]) => return false,
            Some(set) => set.push(kept()),
        }
        true
    }

    /// Number of shares that the set that needs the fewest still needs, and its threshold.
    fn lacks(&self) -> (usize, usize) {
        let sets = self.0.iter().map(|set| (lacks(set), usize::from(set[0][1])));
        sets.min().unwrap_or((usize::MAX, usize::MAX))
    }
}

/// Number of shares that a set still needs.
fn lacks(set: &[Bytes]) -> usize {
    usize::from(set[0][1]).saturating_sub(set.len())
}

impl Header {
    /// Reads the header of a whole share.
    fn read(share: &[u8]) -> Result<Header, ShareError> {
        if share.first().is_some_and(|version| *version != VERSION) {
            return Err(ShareError::NoShare("its version is unknown"));
        }
        if share.iter().skip(1).take(2).any(|byte| *byte == 0) {
            return Err(ShareError::NoShare("its header is damaged"));
        }
        let came = share.len();
        let Some((header, body)) = share.split_first_chunk::<SHARE_HEADER>() else {
            return Err(ShareError::Cut { came, length: SHARE_HEADER });
        };
        let number_of = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (length, number) = header[3..].split_at(LENGTH_BYTES);
        let length = number_of(length) as usize;
        match body.len() {
            there if there < length => Err(ShareError::Cut { came, length: SHARE_HEADER + length }),
            there if there > length => Err(ShareError::NoShare("it is longer than its header says")),
            _ => Ok(Header { threshold: header[1], number: number_of(number) }),
        }
    }
}

/// Recovers a record; None if the shares are invalid.
fn recover(shares: &[Bytes]) -> Option<Bytes> {
    let threshold = shares[0][1];
    if shares[0].len() == SHARE_HEADER {
        return Some(Bytes::new());
    }
    let parse = |share: &Bytes| {
        let bytes: Vec<u8> = std::iter::once(share[2]).chain(share[SHARE_HEADER..].iter().copied()).collect();
        Share::try_from(&bytes[..]).ok()
    };
    let shares = shares.iter().map(parse).collect::<Option<Vec<Share>>>()?;
    Sharks(threshold).recover(&shares).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests;
