//! Secret sharing: records are distributed over outputs such that any `threshold` of them recover the
//! records, and fewer reveal nothing but the lengths of records (Shamir, "How to share a secret", 1979;
//! KStreams, section 3.1: "in order to confuse potential attackers").
//!
//! A share is a record of its own: version 2, threshold, number of the share; the length of the record in
//! three bytes, then its number in six, big-endian; then as many bytes as the record has. So a share that was
//! cut because its sender died is recognized without the other shares.

use std::collections::BTreeMap;

use blahaj::{Share, Sharks};
use bytes::{BufMut, Bytes, BytesMut};

use crate::framing::LONGEST;

const VERSION: u8 = 2;

/// Bytes of the record's length, and of its number, in the header.
const LENGTH_BYTES: usize = 3;
const NUMBER_BYTES: usize = 6;

/// Most bytes of a record that is shared: the receiver needs whole shares, which are longer than the record.
pub(crate) const LONGEST_SHARED: usize = LONGEST - SHARE_HEADER;

/// Bytes of the header before a share.
pub const SHARE_HEADER: usize = 12;

/// Most shares of a record: the number of a share is one byte and not 0.
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
        /// Bytes of the whole share; of the header, if the header is incomplete.
        length: usize,
    },
    /// The share has another threshold than the stream.
    #[error(
        "a share of threshold {found}, and {expected} is configured: set the threshold of the stream that \
         makes the shares"
    )]
    Foreign {
        /// Threshold of the share.
        found: u8,
        /// The threshold of the stream.
        expected: u8,
    },
}

#[derive(Debug)]
pub(crate) struct SecretSplitter {
    pub(crate) threshold: u8,
    next: u64,
}

impl SecretSplitter {
    /// A splitter with a threshold of at least 1.
    pub(crate) fn new(threshold: u8) -> SecretSplitter {
        SecretSplitter { threshold: threshold.max(1), next: 0 }
    }

    /// Splits the next record into `count` shares, at most [`MOST_SHARES`].
    pub(crate) fn split(&mut self, record: &[u8], count: usize) -> Vec<Bytes> {
        let number = self.next;
        self.next += 1;
        let shares = Sharks(self.threshold).dealer(record).take(count.min(MOST_SHARES));
        shares.map(|share| self.pack(number, &share)).collect()
    }

    fn pack(&self, number: u64, share: &Share) -> Bytes {
        let bytes = Vec::from(share); // number of the share, then the bytes
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
    /// Number of shares that recover a record. Shares of another threshold are refused.
    threshold: u8,
    /// Shares of incomplete records, by record number.
    open: BTreeMap<u64, Candidates>,
    /// Bytes of waiting shares.
    pub(crate) bytes: usize,
    /// Number of waiting shares.
    shares: usize,
    /// Most records that wait for shares.
    window: usize,
    /// Most bytes of memory of waiting shares.
    max_bytes: usize,
    /// Number of the next record.
    next: u64,
    pub(crate) counts: ShareCounts,
    /// Bytes of shares whose records were given up.
    pub(crate) lost_bytes: u64,
}

/// Memory that a waiting share takes beside its bytes. It counts against the bound, which many small shares
/// would exceed otherwise.
pub(crate) const SHARE_MEMORY: usize = 256;

/// Shares of one record, in sets of equal length: a set of `threshold` shares recovers the record.
#[derive(Debug, Default)]
struct Candidates {
    sets: BTreeMap<usize, Vec<Bytes>>,
    /// Size of the largest set.
    most: usize,
}

/// Counts of combining shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// Records given up because too few of their shares came, or none.
    pub lost: u64,
    /// Shares that came too late or twice.
    pub spare: u64,
    /// Shares that were incomplete at the end of their input, or inconsistent with the shares that recovered
    /// the record.
    pub damaged: u64,
    /// Shares that were refused because they have another threshold.
    pub foreign: u64,
}

/// Header of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    threshold: u8,
    /// Number of the record.
    number: u64,
}

impl Collector {
    /// A collector of shares of this threshold. At most `window` records (at least 1) wait for shares, with
    /// at most `max_bytes` (at least 1) in total.
    pub(crate) fn new(threshold: u8, window: usize, max_bytes: usize) -> Collector {
        Collector {
            threshold: threshold.max(1),
            open: BTreeMap::new(),
            bytes: 0,
            shares: 0,
            window: window.max(1),
            max_bytes: max_bytes.max(1),
            next: 0,
            counts: ShareCounts::default(),
            lost_bytes: 0,
        }
    }

    /// Number of the first record of which a share waits.
    pub(crate) fn first(&self) -> Option<u64> {
        self.open.first_key_value().map(|(number, _)| *number)
    }

    /// Memory of waiting shares.
    fn memory(&self) -> usize {
        self.bytes + self.shares * SHARE_MEMORY
    }

    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < self.window && self.memory() < self.max_bytes
    }

    pub(crate) fn is_overfull(&self) -> bool {
        self.open.len() > self.window || self.memory() > self.max_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds a share. The input brings no share of a record before `least`. Returns the record number.
    pub(crate) fn offer(&mut self, share: &[u8], least: u64) -> Result<u64, ShareError> {
        let Header { number, threshold } = Header::read(share)?;
        if threshold != self.threshold {
            self.counts.foreign += 1;
            return Err(ShareError::Foreign { found: threshold, expected: self.threshold });
        }
        let is_late = number < self.next.max(least);
        if is_late || !self.open.entry(number).or_default().add(share, threshold.into()) {
            self.counts.spare += 1;
        } else {
            self.bytes += share.len();
            self.shares += 1;
        }
        Ok(number)
    }

    /// Counts a share that was incomplete at the end of its input.
    pub(crate) fn note_cut(&mut self, bytes: usize) {
        self.counts.damaged += 1;
        self.lost_bytes += bytes as u64;
    }

    /// Takes the next record, if it can be recovered, and gives up earlier records that can no longer be
    /// recovered. `behind` returns the number of inputs that may still bring a share of a record; for
    /// datagrams it is unknown.
    pub(crate) fn take(&mut self, has_datagrams: bool, behind: impl Fn(u64) -> usize) -> Option<Bytes> {
        loop {
            let (&number, candidates) = self.open.first_key_value()?;
            let threshold = usize::from(self.threshold);
            let lacks = threshold.saturating_sub(candidates.most);
            let (is_complete, is_next) = (lacks == 0, number == self.next);
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

    /// Recovers a record; None, and counted, if too few shares are consistent.
    fn recover(&mut self, Candidates { mut sets, most }: Candidates) -> Option<Bytes> {
        let shares: usize = sets.values().map(Vec::len).sum();
        let bytes: usize = sets.iter().map(|(length, set)| length * set.len()).sum();
        self.shares -= shares;
        self.bytes -= bytes;
        let length = sets.iter().find(|(_, set)| set.len() == most).map(|(length, _)| *length);
        let set = length.filter(|_| most >= self.threshold.into()).and_then(|length| sets.remove(&length));
        let record = set.and_then(|set| Some((recover(&set)?, set)));
        let Some((record, set)) = record else {
            self.counts.lost += 1;
            self.lost_bytes += bytes as u64;
            return None;
        };
        let used: usize = set.iter().map(Bytes::len).sum();
        self.lost_bytes += (bytes - used) as u64;
        self.counts.damaged += (shares - set.len()) as u64;
        Some(record)
    }
}

impl Candidates {
    /// Adds a share. Returns false if it is not needed.
    fn add(&mut self, share: &[u8], threshold: usize) -> bool {
        let set = self.sets.entry(share.len()).or_default();
        if set.len() >= threshold || set.iter().any(|other| other[2] == share[2]) {
            return false;
        }
        set.push(Bytes::copy_from_slice(share)); // a slice would keep the whole block alive
        self.most = self.most.max(set.len());
        true
    }
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

/// Recovers a record from its shares; None if the shares are invalid.
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
