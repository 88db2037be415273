//! Pending moves of registered memory by `mremap`.

use std::sync::atomic::{AtomicUsize, Ordering::*};

const MOST: usize = 64;
/// Marker of an entry that is being written: no page begins at this address.
const CLAIMED: usize = 1;

/// Moves, recorded by any thread without a lock.
#[derive(Debug)]
pub(super) struct Moves([Move; MOST]);

#[derive(Debug)]
struct Move {
    /// Target address; 0 for no move.
    to: AtomicUsize,
    length: AtomicUsize,
}

impl Moves {
    pub(super) fn new() -> Moves {
        Moves(std::array::from_fn(|_| Move { to: AtomicUsize::new(0), length: AtomicUsize::new(0) }))
    }

    /// Records a move. Moves beyond the capacity are dropped: their pages stay protected, and writers get
    /// copies.
    pub(super) fn note(&self, to: usize, length: usize) {
        let is_free = |entry: &&Move| entry.to.compare_exchange(0, CLAIMED, Acquire, Relaxed).is_ok();
        if let Some(entry) = self.0.iter().find(is_free) {
            entry.length.store(length, Relaxed);
            entry.to.store(to, Release);
        }
    }

    /// Takes one move.
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
