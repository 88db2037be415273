//! Processor hints.

use std::ops::Range;

use crate::mapping::Mapping;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of a block of [`RecentBlocks`]: a page, within which a prefetch needs one translation.
const BLOCK: usize = 4096;

/// Blocks that [`RecentBlocks`] remembers: 1 MiB, which the second-level cache of most servers holds.
const BLOCKS: usize = 256;

/// Prefetches the cache lines of `value`, without waiting for them.
#[inline]
pub fn prefetch<T>(value: &T) {
    let start = std::ptr::from_ref(value).addr();
    prefetch_lines(start..start + size_of::<T>());
}

/// Prefetches the cache lines of addresses, without waiting for them. A page that is not mapped is left out.
#[inline]
fn prefetch_lines(addresses: Range<usize>) {
    for address in addresses.step_by(LINE) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing that the program could see, and never faults, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address; // no prefetch on other processors
    }
}

/// Blocks of memory that a thread prefetched last, which are probably in its processor's cache.
pub(crate) struct RecentBlocks {
    /// Numbers of blocks, each at the place that follows from it.
    numbers: Box<[usize]>,
}

impl Default for RecentBlocks {
    fn default() -> RecentBlocks {
        RecentBlocks { numbers: vec![0; BLOCKS].into() }
    }
}

impl RecentBlocks {
    /// Prefetches the cache lines of a range of a mapping, except those in remembered blocks; nothing if the range is
    /// not within the mapping.
    #[inline]
    pub(crate) fn prefetch_range(&mut self, mapping: &Mapping, range: Range<usize>) {
        if let Ok(vector) = mapping.vector(range) {
            let start = vector.iov_base.addr();
            self.prefetch(start..start + vector.iov_len);
        }
    }

    /// Prefetches the cache lines of addresses, except those in remembered blocks.
    #[inline]
    fn prefetch(&mut self, addresses: Range<usize>) {
        for number in addresses.start / BLOCK..addresses.end.div_ceil(BLOCK) {
            if self.remember(number) {
                let start = number * BLOCK;
                prefetch_lines(start.max(addresses.start)..(start + BLOCK).min(addresses.end));
            }
        }
    }

    /// Remembers a block; returns whether that is new.
    #[inline]
    fn remember(&mut self, number: usize) -> bool {
        let place = &mut self.numbers[number % BLOCKS];
        std::mem::replace(place, number) != number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_remembered_until_others_take_their_places() {
        let mut recent = RecentBlocks::default();
        let first = 10 * BLOCKS + 7;
        recent.prefetch(first * BLOCK + 5..(first + 2) * BLOCK + 1);
        let is_new =
            [first - 1, first, first + 1, first + 2, first + 3].map(|number| recent.remember(number));
        assert_eq!(is_new, [true, false, false, false, true], "the blocks of the range, in part or in whole");
        assert!(recent.remember(first + BLOCKS) && recent.remember(first), "another block took its place");
        assert!(!recent.remember(first + 1));
        recent.prefetch(first * BLOCK..first * BLOCK);
    }
}
