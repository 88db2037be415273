//! Copies as a send makes them: from uncached memory to cached memory.

use std::hint::black_box;

use super::arena::{self, Arena};
use super::used;

/// Approximate number of bytes copied for one figure, and the smallest and largest number of copies: some
/// hundreds of microseconds.
const VOLUME: usize = 4 << 20;
const FEWEST: usize = 16;
const MOST: usize = 1 << 16;

/// Memory to copy from, block after block, and memory to copy to.
///
/// The payload of a run is sent once, so its first bytes have been evicted from the caches long before they
/// are sent again. The kernel copies it to buffers that the device has just returned.
pub(crate) struct ColdCopies {
    source: Arena,
    target: Arena,
}

impl ColdCopies {
    /// Arenas for blocks of up to `largest` bytes; `None` if memory is short.
    pub(crate) fn new(largest: usize) -> Option<ColdCopies> {
        let (source, target) = arena::pair(largest)?;
        (source.largest_block() >= largest).then_some(ColdCopies { source, target })
    }

    /// Processor seconds of one copy.
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
        // No memory moves a TB/s. There is no upper limit: on a machine in use by others a copy may take any
        // time.
        assert!(0.0 < small && 1e-6 < large, "{small} {large}");
    }
}
