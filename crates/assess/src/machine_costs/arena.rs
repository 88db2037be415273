//! Memory much larger than the processor's caches, with a position that advances.

use crate::host::read;

/// Bytes of a cache line and of a page, on all supported processors.
const LINE: usize = 64;
const PAGE: usize = 4096;

/// Size of an arena as a multiple of the last-level cache: a copied block has long been evicted when its turn
/// comes again.
const TIMES_CACHE: usize = 4;

/// Size of the last-level cache if the kernel does not report it.
const USUAL_CACHE: usize = 32 << 20;

/// Memory, and the offset of the next block.
pub(super) struct Arena {
    memory: Vec<u8>,
    /// Offset of the first page.
    start: usize,
    place: usize,
}

/// Two arenas in which blocks of `largest` bytes fit [`TIMES_CACHE`] times. The arenas are smaller if memory
/// is short; `None` if not even pages fit.
pub(super) fn pair(largest: usize) -> Option<(Arena, Arena)> {
    // A quarter of the available memory for each: measuring must not evict the pages of other programs.
    let most = available_memory().map_or(usize::MAX, |bytes| bytes / 4);
    let wanted = TIMES_CACHE * last_cache().max(largest + PAGE);
    let size = wanted.min(most) / PAGE * PAGE;
    (size >= TIMES_CACHE * 2 * PAGE).then(|| (Arena::new(size, 0x5a), Arena::new(size, 0xa5)))
}

impl Arena {
    /// Arena of `size` bytes, in whole pages, all written: a page that was never written is not mapped, and
    /// reading it costs nothing.
    pub(super) fn new(size: usize, fill: u8) -> Arena {
        let memory = vec![fill; size + PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        Arena { memory, start, place: 0 }
    }

    /// Largest block, a power of two.
    pub(super) fn largest_block(&self) -> usize {
        let most = self.length() / TIMES_CACHE - PAGE;
        1 << most.ilog2()
    }

    /// Block at the beginning, `behind` bytes after the first page boundary.
    pub(super) fn first(&self, behind: usize, size: usize) -> &[u8] {
        &self.memory[self.start + behind..][..size]
    }

    /// Mutable variant of [`Arena::first`].
    pub(super) fn first_mut(&mut self, behind: usize, size: usize) -> &mut [u8] {
        &mut self.memory[self.start + behind..][..size]
    }

    /// Next block, `behind` bytes after a boundary: of a cache line, or for sizes of a page and more, of a
    /// page.
    pub(super) fn next(&mut self, behind: usize, size: usize) -> &[u8] {
        let start = self.advance(behind, size);
        &self.memory[start..][..size]
    }

    /// Mutable variant of [`Arena::next`].
    pub(super) fn next_mut(&mut self, behind: usize, size: usize) -> &mut [u8] {
        let start = self.advance(behind, size);
        &mut self.memory[start..][..size]
    }

    /// Advances the position, and returns the offset of the block that was passed.
    fn advance(&mut self, behind: usize, size: usize) -> usize {
        let boundary = if size < PAGE { LINE } else { PAGE };
        let begin = self.place.next_multiple_of(boundary);
        let begin = if begin + behind + size > self.length() { 0 } else { begin };
        self.place = begin + behind + size;
        self.start + begin + behind
    }

    /// Bytes from the first page boundary on.
    fn length(&self) -> usize {
        self.memory.len() - PAGE
    }
}

/// Size of the largest cache of the first processor.
fn last_cache() -> usize {
    let caches = (0..8)
        .filter_map(|index| read::line(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")));
    // The kernel may report any value; values above 1 GiB are not plausible.
    caches.filter_map(|size| bytes(&size)).max().unwrap_or(USUAL_CACHE).min(1 << 30)
}

/// Parses a size as the kernel formats it, for example `32768K`.
fn bytes(text: &str) -> Option<usize> {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1 << 20)),
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

/// Memory that can be used without evicting pages of other programs.
fn available_memory() -> Option<usize> {
    let meminfo = read::text("/proc/meminfo")?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_follow_each_other_and_begin_again_at_the_end() {
        let mut arena = Arena::new(2 * PAGE, 0);
        let mut place = |behind, size| {
            let base = arena.memory.as_ptr().addr() + arena.start;
            arena.next(behind, size).as_ptr().addr() - base
        };
        assert_eq!([place(0, 8), place(0, 8), place(3, 64), place(0, 8)], [0, 64, 131, 256]);
        assert_eq!([place(0, PAGE), place(1, PAGE - 1), place(0, PAGE)], [PAGE, 1, PAGE]);
    }

    #[test]
    fn an_arena_begins_at_a_page() {
        let mut arena = Arena::new(2 * PAGE, 0);
        assert!(arena.first(0, 1).as_ptr().addr().is_multiple_of(PAGE));
        assert!(arena.first_mut(3, 1).as_ptr().addr() % PAGE == 3);
        assert_eq!(arena.first(PAGE, PAGE).len(), PAGE);
    }

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        assert_eq!(
            ["32768K", "1M", "512", "K", "many", "99999999999999999K"].map(bytes),
            [Some(32 << 20), Some(1 << 20), Some(512), None, None, None]
        );
    }
}
