//! Policy for sends that lend their pages, and the switch that changes it at run time (the papers' sysctl).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Policy of sends that lend their pages: by size, and by whether they begin at a page boundary. For a loan,
/// part of a page costs as much as a whole page, and a send that begins inside a page has one page more.
/// ```
/// use wirepath_datapath::LoanPolicy;
///
/// let policy = LoanPolicy::default();
/// assert!(policy.lends(&(0..5 * 1024)) && !policy.lends(&(0..4096)));
/// assert!(LoanPolicy::ALWAYS.lends(&(1..2)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoanPolicy {
    /// Least bytes of a send that begins at a page boundary and lends. `None`: no such send lends.
    pub aligned_bytes: Option<usize>,
    /// The same for sends that begin elsewhere.
    pub unaligned_bytes: Option<usize>,
    /// If set, every send lends, or none does, whatever its size; none if the device cannot send loans.
    pub forced: Option<bool>,
}

impl Default for LoanPolicy {
    /// Lends from 5 KiB on, until it is measured. `wirepath assess loan` found crossings of 4.5 to 5.1 KiB over
    /// UDP, at a page and elsewhere (AMD EPYC, Linux 6.18); the kernel's documentation of 2017 finds loans
    /// "generally only effective at writes over around 10 KB" (`msg_zerocopy.rst`).
    fn default() -> LoanPolicy {
        LoanPolicy { aligned_bytes: Some(5 * 1024), unaligned_bytes: Some(5 * 1024), forced: None }
    }
}

impl LoanPolicy {
    /// Lends whatever the size.
    pub const ALWAYS: LoanPolicy =
        LoanPolicy { aligned_bytes: None, unaligned_bytes: None, forced: Some(true) };
    /// Copies whatever the size.
    pub const NEVER: LoanPolicy =
        LoanPolicy { aligned_bytes: None, unaligned_bytes: None, forced: Some(false) };

    /// Returns whether a send of this range of memory, or of a mapped file, lends.
    #[inline]
    pub fn lends(self, range: &Range<usize>) -> bool {
        let is_aligned = range.start.is_multiple_of(rustix::param::page_size());
        let threshold = if is_aligned { self.aligned_bytes } else { self.unaligned_bytes };
        self.forced.unwrap_or_else(|| threshold.is_some_and(|bytes| range.len() >= bytes))
    }
}

/// A policy that many sinks share, and that can be changed at any time from any thread.
#[derive(Clone, Debug)]
pub struct LoanSwitch(Arc<AtomicU64>);

impl LoanSwitch {
    /// A switch in the given position.
    pub fn new(policy: LoanPolicy) -> LoanSwitch {
        LoanSwitch(Arc::new(AtomicU64::new(packed(policy))))
    }

    /// Sets the policy of later sends, on all sinks that share this switch.
    pub fn set(&self, policy: LoanPolicy) {
        self.0.store(packed(policy), Relaxed);
    }

    /// Current policy.
    #[inline]
    pub fn policy(&self) -> LoanPolicy {
        unpacked(self.0.load(Relaxed))
    }
}

impl Default for LoanSwitch {
    fn default() -> LoanSwitch {
        LoanSwitch::new(LoanPolicy::default())
    }
}

/// A policy in one word, so that a change is atomic: both thresholds, above two bits for a forced decision.
/// No send has more than 2 GiB, so a larger threshold means none.
fn packed(policy: LoanPolicy) -> u64 {
    let threshold =
        |bytes: Option<usize>| bytes.map_or(NO_THRESHOLD, |bytes| (bytes as u64).min(NO_THRESHOLD));
    let forced = match policy.forced {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    };
    threshold(policy.aligned_bytes) << (THRESHOLD_BITS + 2) | threshold(policy.unaligned_bytes) << 2 | forced
}

const THRESHOLD_BITS: u32 = 31;
const NO_THRESHOLD: u64 = (1 << THRESHOLD_BITS) - 1;

fn unpacked(word: u64) -> LoanPolicy {
    let threshold = |bits: u64| {
        let bytes = bits & NO_THRESHOLD;
        (bytes != NO_THRESHOLD).then_some(bytes as usize)
    };
    LoanPolicy {
        aligned_bytes: threshold(word >> (THRESHOLD_BITS + 2)),
        unaligned_bytes: threshold(word >> 2),
        forced: match word & 3 {
            0 => None,
            1 => Some(false),
            _ => Some(true),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_what_was_set() {
        let switch = LoanSwitch::default();
        assert_eq!(switch.policy(), LoanPolicy::default());
        let shared = switch.clone();
        let thresholds = [None, Some(0), Some(4096), Some((1 << 31) - 2)];
        for (aligned_bytes, unaligned_bytes) in
            thresholds.into_iter().flat_map(|one| thresholds.map(|other| (one, other)))
        {
            for forced in [None, Some(false), Some(true)] {
                let policy = LoanPolicy { aligned_bytes, unaligned_bytes, forced };
                switch.set(policy);
                assert_eq!(shared.policy(), policy);
            }
        }
        switch.set(LoanPolicy {
            aligned_bytes: Some(1 << 40),
            unaligned_bytes: Some(usize::MAX),
            forced: None,
        });
        let none = LoanPolicy { aligned_bytes: None, unaligned_bytes: None, forced: None };
        assert_eq!(shared.policy(), none, "no send is so large");
    }

    /// Promise: `loan` decides by measured thresholds, for aligned and other sends.
    #[test]
    fn size_and_alignment_decide() {
        let page = rustix::param::page_size();
        let policy = LoanPolicy { aligned_bytes: Some(2048), unaligned_bytes: Some(3000), forced: None };
        for start in [0, page, 7 * page] {
            assert!(policy.lends(&(start..start + 2048)) && !policy.lends(&(start..start + 2047)), "{start}");
        }
        for start in [1, 2048, page - 1, 7 * page + 1] {
            assert!(policy.lends(&(start..start + 3000)) && !policy.lends(&(start..start + 2999)), "{start}");
        }
        let large = 0..100 * page;
        assert!(!LoanPolicy { forced: Some(false), ..policy }.lends(&large));
        assert!(LoanPolicy { forced: Some(true), ..policy }.lends(&(1..2)));
        assert!(!LoanPolicy { aligned_bytes: None, ..policy }.lends(&large));
        assert!(LoanPolicy { aligned_bytes: None, ..policy }.lends(&(1..100 * page)));
        assert!(LoanPolicy::ALWAYS.lends(&(1..2)) && !LoanPolicy::NEVER.lends(&large));
    }

    #[test]
    fn no_range_is_too_much_to_reckon_with() {
        let policy = LoanPolicy { aligned_bytes: Some(2), unaligned_bytes: Some(2), forced: None };
        assert!(!policy.lends(&(usize::MAX - 1..usize::MAX)));
        assert!(policy.lends(&(1..usize::MAX)) && policy.lends(&(0..usize::MAX)));
    }
}
