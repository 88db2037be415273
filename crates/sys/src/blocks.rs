//! Blocks that are written through slices and handed on in parts, and used again when all parts are gone:
//! neither filled with zeros nor allocated for each use.

use std::collections::VecDeque;
use std::fmt;

use bytes::BytesMut;

/// Most blocks that are kept: those that wait for a slow reader are others' memory.
const KEPT: usize = 4;

/// Blocks of one writer.
pub struct Blocks {
    /// Bytes of a block.
    size: usize,
    /// The rest of the block that is written: all of its length is initialised.
    rest: Option<BytesMut>,
    /// Blocks whose parts may still be in use.
    used: VecDeque<BytesMut>,
}

impl Blocks {
    /// Blocks of `size` bytes, which are allocated when they are needed.
    pub fn new(size: usize) -> Blocks {
        Blocks { size, rest: None, used: VecDeque::new() }
    }

    /// The next bytes of a block, at least `length`. Their content is unspecified.
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        if self.rest() < length {
            if let Some(last) = self.rest.take() {
                self.used.truncate(KEPT - 1);
                self.used.push_front(last);
            }
            self.rest = self.free(length);
        }
        self.rest.get_or_insert_with(|| BytesMut::zeroed(length.max(self.size)))
    }

    /// Bytes that are left of the current block.
    pub fn rest(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    /// Takes the first `length` bytes of what [`Blocks::room`] gave.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn take(&mut self, length: usize) -> BytesMut {
        self.rest.get_or_insert_with(BytesMut::new).split_to(length)
    }

    /// A block of at least `length` bytes of which nobody has a part any more.
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
        assert_eq!(part(6, 1000).len(), 1000, "a longer one than blocks are");
        assert_eq!(part(7, 100)[..], [7; 100]);
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
