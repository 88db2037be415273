//! Copies as a send makes them: from memory that is in no cache to memory that is.

use std::hint::black_box;

use super::arena::{self, Arena};
use super::used;

/// Bytes that are copied for one figure, about, and how often at least and at most: some hundreds of
/// microseconds.
const VOLUME: usize = 4 << 20;
const FEWEST: usize = 16;
const MOST: usize = 1 << 16;

/// Memory to copy from, block after block, and a place to copy to.
///
/// The payload of a run is sent once, so its first bytes have left the caches long before they come round
/// again. What the kernel copies it to are buffers that it has just had back from the device.
pub(crate) struct ColdCopies {
    source: Arena,
    target: Arena,
}

impl ColdCopies {
    /// For blocks of up to `largest` bytes; nothing where memory is too short.
    pub(crate) fn new(largest: usize) -> Option<ColdCopies> {
        let (source, target) = arena::pair(largest)?;
        (source.largest_block() >= largest).then_some(ColdCopies { source, target })
    }

    /// Seconds of processor time of one copy.
    pub(crate) fn seconds(&mut self, size: usize) -> f64 {
        let (size, count) = (black_box(size), (VOLUME / size).clamp(FEWEST, MOST));
        let start = used();
        for _ in 0..count {
            let target = black_box(self.target.first_mut(0, size));
            target.copy_from_slice(black_box(self.source.next(0, size)));
        }
        (used() - start).as_secs_f64() / count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_copy_is_optimised_away() {
        let mut copies = ColdCopies::new(1 << 20).expect("some MiB are free");
        let (small, large) = (copies.seconds(64), copies.seconds(1 << 20));
        // No memory moves a TB/s. Nothing is asked in the other direction: a machine that others use may take any time.
        assert!(0.0 < small && 1e-6 < large, "{small} {large}");
    }
}
