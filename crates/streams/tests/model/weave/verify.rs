//! Checks of a round of two streams at its end.

use wirepath_streams::{JoinCounts, SHARE_HEADER, ShareCounts, StreamEnd, StreamStatus};

use super::Weave;
use super::scheme::Scheme;
use crate::carrier::Carrier;
use crate::dice::Tally;
use crate::record::{Sizes, in_front};

impl Weave<'_> {
    pub(super) fn verify(mut self) -> Tally {
        let carriers = std::mem::replace(&mut self.carriers, [Carrier::Nowhere, Carrier::Nowhere]);
        let [spread, merge] = carriers.map(Carrier::end).map(|StreamEnd { result, status }| {
            assert_eq!(result, Ok(()));
            status
        });
        let sent = self.sent.len() as u64;
        assert_eq!((spread.bytes_in, merge.bytes_out), (sent, sent));
        assert_eq!(merge.bytes_in, spread.bytes_out, "the links");
        self.check_links(&spread, &merge);
        let are_by_length = matches!(self.sizes, Sizes::Mixed) && !matches!(self.scheme, Scheme::Parts(_));
        for (status, lender) in [&spread, &merge].into_iter().zip(&self.lenders) {
            lender.check(status, &mut self.tally);
            self.tally.add("bytes in", status.bytes_in);
            self.tally.add("bytes out", status.bytes_out);
            self.tally.add("bytes in, that nobody looked at", status.zero_copy_bytes);
            if are_by_length {
                let bytes = status.zero_copy_bytes;
                self.tally.add("bytes in behind their lengths, that nobody looked at", bytes);
            }
        }
        self.source.check();
        self.sink.read_to_end(sent);
        assert!(self.sink.bytes == self.sent, "{} bytes came, not those that went", self.sink.bytes.len());
        self.heads.iter().for_each(|heads| heads.check(in_front(&self.sent)));
        self.check_watchers();
        self.tally.note("ending: all together again, in order");
        self.tally
    }

    /// Checks the number of bytes on the links, and that what came by them was put together without a loss.
    fn check_links(&self, spread: &StreamStatus, merge: &StreamStatus) {
        let Scheme::Shares(threshold) = self.scheme else {
            assert_eq!(spread.bytes_out, self.sent.len() as u64);
            assert!(merge.join.is_none_or(|counts| counts == JoinCounts::default()), "{:?}", merge.join);
            return;
        };
        let counts = merge.shares.unwrap_or_default();
        let spare = if self.links < self.links_at_first { counts.spare } else { self.spare(threshold) };
        assert_eq!(counts, ShareCounts { spare, ..ShareCounts::default() });
        let headers = u64::from(self.records) * SHARE_HEADER as u64;
        let of_link = self.sent.len() as u64 + headers;
        let fewest = of_link * self.links as u64;
        let all = of_link * self.links_at_first as u64;
        assert!((fewest..=all).contains(&spread.bytes_out), "{spread:?}");
    }

    /// Number of shares that are not needed, if no link was detached.
    fn spare(&self, threshold: u8) -> u64 {
        (self.links as u64 - u64::from(threshold)) * u64::from(self.records)
    }
}
