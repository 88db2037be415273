//! Blocks that are written through slices, passed on in parts, and reused when all parts are dropped: neither
//! filled with zeros nor allocated for each use.

use std::collections::VecDeque;
use std::fmt;

use bytes::BytesMut;

/// Maximum number of kept blocks, and of their bytes if there are several: blocks that wait for a slow reader
/// take memory from other uses.
const KEPT: usize = 4;
const KEPT_BYTES: usize = 512 * 1024;

/// Maximum size of a reused block: a longer block is allocated for each use. The limit is the size of one
/// read call (1 MiB), and a quarter of that for additions.
const MOST: usize = 1280 * 1024;

const PAGE: usize = 4096;

/// Blocks of one writer.
pub struct Blocks {
    /// Size of a block in bytes: the longest needed so far, up to [`MOST`].
    size: usize,
    /// Rest of the current block: all of its length is initialised.
    rest: Option<BytesMut>,
    /// True if the current block is too long for reuse.
    is_long: bool,
    /// Blocks whose parts may be in use.
    used: VecDeque<BytesMut>,
}

impl Blocks {
    /// Blocks of `size` bytes, or larger if needed; allocated on demand.
    pub fn new(size: usize) -> Blocks {
        Blocks { size, rest: None, is_long: false, used: VecDeque::new() }
    }

    /// Next bytes of a block, at least `length`. Their content is unspecified.
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        if self.rest() < length {
            if let Some(last) = self.rest.take_if(|_| !self.is_long) {
                self.used.truncate((KEPT_BYTES / self.size.max(1)).clamp(1, KEPT) - 1);
                self.used.push_front(last);
            }
            if length > self.size && length <= MOST {
                self.size = length.next_multiple_of(PAGE);
                self.used.clear(); // too short
            }
            self.is_long = length > self.size;
            self.rest = self.free(length);
        }
        self.rest.get_or_insert_with(|| BytesMut::zeroed(length.max(self.size)))
    }

    /// Bytes left in the current block.
    pub fn rest(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    /// Takes the first `length` bytes of the result of [`Blocks::room`].
    ///
    /// # Panics
    /// If there are fewer.
    pub fn take(&mut self, length: usize) -> BytesMut {
        self.rest.get_or_insert_with(BytesMut::new).split_to(length)
    }

    /// Block of at least `length` bytes whose parts have all been dropped.
    fn free(&mut self, length: usize) -> Option<BytesMut> {
        if length > self.size {
            return None;
        }
        let is_free = |block: &mut BytesMut| {
            block.clear();
            block.try_reclaim(self.size)
        };
        let place = self.used.iter_mut().position(is_free)?;
        let mut block = self.used.remove(place)?;
        // SAFETY: the block has `self.size` bytes, as it was reclaimed. It was allocated filled with zeros, and
        // only slices of initialised bytes were given out of it and of its parts since: all of it is initialised.
        unsafe { block.set_len(self.size) };
        Some(block)
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Blocks").field("size", &self.size).field("used", &self.used.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_used_again_when_its_parts_are_gone_and_not_before() {
        let mut blocks = Blocks::new(100);
        let mut part = |byte: u8, length| {
            blocks.room(length)[..length].fill(byte);
            blocks.take(length)
        };
        let (first, second) = (part(1, 60), part(2, 40));
        let third = part(3, 100);
        assert!(first.iter().all(|byte| *byte == 1) && second.iter().all(|byte| *byte == 2));
        let place = first.as_ptr();
        drop(first);
        let fourth = part(4, 100);
        assert_ne!(fourth.as_ptr(), place, "a part of it is in use");
        drop((second, third, fourth));
        let again: Vec<BytesMut> = (0..3).map(|_| part(5, 100)).collect();
        assert!(again.iter().any(|part| part.as_ptr() == place), "it is used again");
        assert_eq!(part(6, 1000).len(), 1000, "a longer one than blocks were");
        assert_eq!(part(7, 100)[..], [7; 100]);
    }

    #[test]
    fn blocks_grow_to_what_is_needed_and_are_used_again() {
        let mut blocks = Blocks::new(64);
        let mut place = |length| {
            blocks.room(length)[..length].fill(1);
            blocks.take(length).as_ptr()
        };
        place(64);
        for length in [PAGE + 8, 128 * 1024 + 8, MOST] {
            let first = place(length);
            assert_eq!([(); 3].map(|()| place(length)), [first; 3], "{length}");
        }
        place(MOST + 1);
        place(1);
        assert_eq!((blocks.size, blocks.used.len()), (MOST, 0), "such a long one is not kept");
    }

    #[test]
    fn many_parts_in_use_are_no_block_s_memory_for_long() {
        let mut blocks = Blocks::new(10);
        let parts: Vec<BytesMut> = (0..100u8)
            .map(|byte| {
                blocks.room(10)[..10].fill(byte);
                blocks.take(10)
            })
            .collect();
        assert_eq!(blocks.used.len(), KEPT);
        assert!(parts.iter().zip(0..).all(|(part, byte)| part.iter().all(|other| *other == byte)));
    }
}
