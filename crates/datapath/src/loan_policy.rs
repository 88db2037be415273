//! When a send lends its pages, and the switch that changes it while everything runs (the papers' sysctl).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// When a send lends its pages instead of having them copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoanPolicy {
    /// Sends of at least this many bytes lend, counted from the first page boundary in them: a page that is sent in part costs a
    /// loan as much as a whole one. `None`: none lends.
    pub threshold_bytes: Option<usize>,
    /// Every send lends, or none does, whatever its size. A device that cannot send what is lent is never lent to.
    pub forced: Option<bool>,
}

impl Default for LoanPolicy {
    /// Lends from 10 KiB on, until somebody has measured: the kernel's documentation finds loans "generally only effective at
    /// writes over around 10 KB" (`msg_zerocopy.rst`).
    fn default() -> LoanPolicy {
        LoanPolicy { threshold_bytes: Some(10 * 1024), forced: None }
    }
}

impl LoanPolicy {
    /// Whether a send of this range of memory, or of a file that is mapped, lends.
    pub fn lends(self, range: &Range<usize>) -> bool {
        let from_boundary =
            range.end.saturating_sub(range.start.next_multiple_of(rustix::param::page_size()));
        let is_large = || self.threshold_bytes.is_some_and(|threshold| from_boundary >= threshold);
        self.forced.unwrap_or_else(is_large)
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

    /// What holds for the sends that follow, on all sinks that share this switch.
    pub fn set(&self, policy: LoanPolicy) {
        self.0.store(packed(policy), Relaxed);
    }

    /// What holds now.
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

/// A policy in one word, so that nobody sees half of a change: the threshold above two bits for what is forced.
fn packed(policy: LoanPolicy) -> u64 {
    let threshold = policy.threshold_bytes.map_or(NO_THRESHOLD, |bytes| (bytes as u64).min(NO_THRESHOLD - 1));
    let forced = match policy.forced {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    };
    threshold << 2 | forced
}

const NO_THRESHOLD: u64 = u64::MAX >> 2;

fn unpacked(word: u64) -> LoanPolicy {
    let threshold = word >> 2;
    LoanPolicy {
        threshold_bytes: (threshold != NO_THRESHOLD).then_some(threshold as usize),
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
        for threshold_bytes in [None, Some(0), Some(4096), Some(1 << 40)] {
            for forced in [None, Some(false), Some(true)] {
                let policy = LoanPolicy { threshold_bytes, forced };
                switch.set(policy);
                assert_eq!(shared.policy(), policy);
            }
        }
    }

    #[test]
    fn a_page_in_part_does_not_count() {
        let page = rustix::param::page_size();
        let policy = LoanPolicy { threshold_bytes: Some(2 * page), forced: None };
        assert!(policy.lends(&(page..3 * page)));
        assert!(!policy.lends(&(page..3 * page - 1)));
        assert!(!policy.lends(&(1..2 * page + 1 + page - 2)));
        assert!(policy.lends(&(1..3 * page)));
        assert!(!LoanPolicy { forced: Some(false), ..policy }.lends(&(0..100 * page)));
        assert!(LoanPolicy { forced: Some(true), ..policy }.lends(&(1..2)));
        assert!(!LoanPolicy { threshold_bytes: None, forced: None }.lends(&(0..100 * page)));
    }
}
