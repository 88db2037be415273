//! Secret sharing: records are spread over outputs such that any `threshold` of them recover the records, and
//! fewer tell nothing but their lengths (Shamir, "How to share a secret", 1979; KStreams, section 3.1: "in
//! order to confuse potential attackers").
//!
//! A share is a record of its own: version 1, threshold, number of the share, a zero; the number of the
//! record in eight bytes, most significant first; then as many bytes as the record has.

use std::collections::BTreeMap;

use blahaj::{Share, Sharks};
use bytes::{BufMut, Bytes, BytesMut};

const VERSION: u8 = 1;

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
    /// Shares of one record do not belong together.
    #[error("inconsistent shares of record {0}")]
    Mixed(u64),
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
        packed.put_slice(&[VERSION, self.threshold, bytes[0], 0]);
        packed.put_u64(number);
        packed.put_slice(&bytes[1..]);
        packed.freeze()
    }
}

/// Combines shares.
#[derive(Debug)]
pub(crate) struct Collector {
    /// Shares of incomplete records, by the number of the record.
    open: BTreeMap<u64, Vec<Bytes>>,
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

/// Counts of combining shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// Records given up, because too few of their shares came, or none.
    pub lost: u64,
    /// Shares that came too late, or twice.
    pub spare: u64,
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

    /// Adds a share; returns the number of its record.
    pub(crate) fn offer(&mut self, share: &[u8]) -> Result<u64, ShareError> {
        let (number, threshold) = read_header(share)?;
        if number < self.next {
            self.counts.spare += 1;
            return Ok(number);
        }
        let shares = self.open.entry(number).or_default();
        if shares.iter().any(|other| other[1] != threshold || other.len() != share.len()) {
            return Err(ShareError::Mixed(number));
        }
        if shares.len() >= usize::from(threshold) || shares.iter().any(|other| other[2] == share[2]) {
            self.counts.spare += 1;
            return Ok(number);
        }
        // A slice would keep all that was read with it.
        shares.push(Bytes::copy_from_slice(share));
        self.bytes += share.len();
        Ok(number)
    }

    /// The next record, if it can be recovered. Those before it that cannot any more are given up: `behind`
    /// is the number of inputs that may still bring a share of a record, which is unknown of datagrams.
    pub(crate) fn take(&mut self, has_datagrams: bool, behind: impl Fn(u64) -> usize) -> Option<Bytes> {
        loop {
            let (&number, shares) = self.open.first_key_value()?;
            let threshold = usize::from(shares[0][1]);
            let (is_complete, is_next) = (shares.len() >= threshold, number == self.next);
            let lacks = threshold.saturating_sub(shares.len());
            // Records before it, of which no share came, are taken to be of its kind.
            let is_awaited =
                !is_next && behind(number - 1) >= threshold || !is_complete && behind(number) >= lacks;
            let may_come = is_awaited || has_datagrams && !self.is_overfull();
            if may_come && !(is_complete && is_next) {
                return None;
            }
            self.counts.lost += number - self.next;
            self.next = number + 1;
            let (_, shares) = self.open.pop_first()?;
            let bytes = shares.iter().map(Bytes::len).sum::<usize>();
            self.bytes -= bytes;
            if is_complete && let Some(record) = recover(&shares) {
                return Some(record);
            }
            self.counts.lost += 1;
            self.lost_bytes += bytes as u64;
        }
    }
}

fn read_header(share: &[u8]) -> Result<(u64, u8), ShareError> {
    let Some((header, _)) = share.split_first_chunk::<SHARE_HEADER>() else {
        return Err(ShareError::NoShare("it is too short"));
    };
    let [version, threshold, x, zero, number @ ..] = header;
    let number = u64::from_be_bytes(*number);
    match (*version, *threshold, *x, *zero) {
        (VERSION, 1.., 1.., 0) if number < u64::MAX => Ok((number, *threshold)),
        (VERSION, ..) => Err(ShareError::NoShare("its header is damaged")),
        _ => Err(ShareError::NoShare("its version is unknown")),
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
