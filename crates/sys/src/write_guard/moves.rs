//! Moves of registered memory by `mremap` that are still to be dealt with.

use std::sync::atomic::{AtomicUsize, Ordering::*};

const MOST: usize = 64;
/// No page begins here: an entry that is being written.
const CLAIMED: usize = 1;

/// Moves, noted by any thread without a lock.
#[derive(Debug)]
pub(super) struct Moves([Move; MOST]);

#[derive(Debug)]
struct Move {
    /// 0: none.
    to: AtomicUsize,
    length: AtomicUsize,
}

impl Moves {
    pub(super) fn new() -> Moves {
        Moves(std::array::from_fn(|_| Move { to: AtomicUsize::new(0), length: AtomicUsize::new(0) }))
    }

    /// Notes a move. Beyond the room it is forgotten: its pages stay protected, and writers get copies.
    pub(super) fn note(&self, to: usize, length: usize) {
        let is_free = |entry: &&Move| entry.to.compare_exchange(0, CLAIMED, Acquire, Relaxed).is_ok();
        if let Some(entry) = self.0.iter().find(is_free) {
            entry.length.store(length, Relaxed);
            entry.to.store(to, Release);
        }
    }

    /// Takes one.
    pub(super) fn take(&self) -> Option<(usize, usize)> {
        self.0.iter().find_map(|entry| {
            let (to, length) = (entry.to.load(Acquire), entry.length.load(Relaxed));
            let is_taken = to > CLAIMED && entry.to.compare_exchange(to, 0, AcqRel, Relaxed).is_ok();
            is_taken.then_some((to, length))
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|entry| entry.to.load(Relaxed) == 0)
    }
}
