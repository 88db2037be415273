//! Blocks that are written through slices, passed on in parts, and reused when all parts are dropped: neither
//! filled with zeros nor allocated for each use.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::{fmt, mem};

use bytes::BytesMut;

/// Maximum number of kept blocks, and of their bytes if there are several: blocks that wait for a slow reader
/// take memory from other uses.
const KEPT: usize = 4;
const KEPT_BYTES: usize = 512 * 1024;

/// Maximum size of a reused block: a longer block is allocated for each use. The limit is the size of one
/// read call (1 MiB), and a quarter of that for additions.
const MOST: usize = 1280 * 1024;

const PAGE: usize = 4096;

/// Maximum number of blocks of finished writers that a thread keeps for its next writers, and of their bytes. A
/// writer of a short answer would otherwise allocate, fill with zeros and free all that it writes.
const SPARE: usize = 8;
const SPARE_BYTES: usize = 1024 * 1024;

thread_local! {
    /// Blocks of writers that were dropped on this thread, in that order. Parts of them may be in use.
    static SPARES: RefCell<VecDeque<Block>> = const { RefCell::new(VecDeque::new()) };
}

/// Block whose first `size` bytes were filled with zeros when it was allocated.
struct Block {
    /// Bytes that were not taken yet.
    bytes: BytesMut,
    size: usize,
}

/// Blocks of one writer. Blocks that are left when it is dropped serve the next writers of the thread.
pub struct Blocks {
    /// Size of a block in bytes: the longest needed so far, up to [`MOST`].
    size: usize,
    /// Current block: all of its bytes are initialised.
    current: Option<Block>,
    /// Blocks whose parts may be in use.
    used: VecDeque<Block>,
}

impl Blocks {
    /// Blocks of `size` bytes, or larger if needed; allocated on demand.
    pub fn new(size: usize) -> Blocks {
        Blocks { size, current: None, used: VecDeque::new() }
    }

    /// Next bytes of a block, at least `length`. Their content is unspecified.
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        if self.rest() < length {
            if let Some(last) = self.current.take().filter(Block::is_kept) {
                self.used.truncate((KEPT_BYTES / self.size.max(1)).clamp(1, KEPT) - 1);
                self.used.push_front(last);
            }
            if length > self.size && length <= MOST {
                self.size = length.next_multiple_of(PAGE);
                self.used.clear(); // too short
            }
            self.current = self.free(length);
        }
        let size = length.max(self.size);
        &mut self.current.get_or_insert_with(|| Block { bytes: BytesMut::zeroed(size), size }).bytes
    }

    /// Bytes left in the current block.
    pub fn rest(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.bytes.len())
    }

    /// Takes the first `length` bytes of the result of [`Blocks::room`].
    ///
    /// # Panics
    /// If there are fewer.
    pub fn take(&mut self, length: usize) -> BytesMut {
        self.current.as_mut().map_or_else(BytesMut::new, |current| current.bytes.split_to(length))
    }

    /// Block of at least `length` bytes whose parts have all been dropped: one of this writer, or of an earlier
    /// one.
    fn free(&mut self, length: usize) -> Option<Block> {
        if length > self.size {
            return None;
        }
        let mut block = self.free_of_own().or_else(|| free_of_earlier(self.size))?;
        // SAFETY: the block has `self.size` bytes, as it was reclaimed. It was allocated filled with zeros, and
        // only slices of initialised bytes were given out of it and of its parts since: all of it is initialised.
        unsafe { block.bytes.set_len(self.size) };
        Some(block)
    }

    fn free_of_own(&mut self) -> Option<Block> {
        let place = self.used.iter_mut().position(|block| block.is_free(self.size))?;
        self.used.remove(place)
    }
}

impl Block {
    /// Returns whether the block is short enough to be used again.
    fn is_kept(&self) -> bool {
        self.size <= MOST
    }

    /// Empties the block, and returns whether so many bytes of it are not in use.
    fn is_free(&mut self, bytes: usize) -> bool {
        self.bytes.clear();
        self.bytes.try_reclaim(bytes)
    }
}

/// Smallest block of `size` bytes to twice as many, of a writer that was dropped: longer ones are left to writers that
/// need them.
fn free_of_earlier(size: usize) -> Option<Block> {
    SPARES.with_borrow_mut(|spares| {
        let places = spares.iter_mut().enumerate();
        let fitting = places
            .filter_map(|(place, block)| (size..=2 * size).contains(&block.size).then_some((place, block)));
        let free = fitting.filter_map(|(place, block)| block.is_free(size).then_some((block.size, place)));
        free.min().and_then(|(_, place)| spares.remove(place))
    })
}

fn bytes_of(blocks: &VecDeque<Block>) -> usize {
    blocks.iter().map(|block| block.size).sum()
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let left = self.current.take().filter(Block::is_kept).into_iter().chain(mem::take(&mut self.used));
        // A thread that ends has no spare blocks any more.
        let _ = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            spares.extend(left);
            while bytes_of(&spares) > SPARE_BYTES || spares.len() > SPARE {
                spares.pop_front();
            }
        });
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
    fn a_block_of_an_earlier_writer_is_used_again_when_its_parts_are_gone() {
        let part = |size, byte: u8, length| {
            let mut blocks = Blocks::new(size);
            let room = blocks.room(length);
            assert!(room.len() >= size.max(length), "the whole block");
            room[..length].fill(byte);
            blocks.take(length)
        };
        let first = part(100, 1, 60);
        let place = first.as_ptr();
        assert_ne!(part(100, 2, 60).as_ptr(), place, "a part of it is in use");
        assert!(first.iter().all(|byte| *byte == 1));
        drop(first);
        let again = [part(49, 3, 1), part(50, 4, 50), part(20, 5, 7)];
        assert_eq!(again[1].as_ptr(), place, "for blocks of half its size to its size");
        assert!(again.iter().zip(3..).all(|(part, byte)| part.iter().all(|other| *other == byte)));
        drop(again);
        drop(part(PAGE, 6, PAGE));
        assert_eq!(part(PAGE, 7, 1)[..], [7]);
    }

    #[test]
    fn a_thread_keeps_few_blocks_of_earlier_writers() {
        let drop_writers = |size, length| {
            let writer = || {
                let mut blocks = Blocks::new(size);
                blocks.room(length);
                blocks
            };
            drop([(); 3].map(|()| writer()));
        };
        for (size, length) in
            [(10, 10), (10, MOST), (MOST, 1), (700 << 10, 1), (600 << 10, 1), (10, MOST + 1)]
        {
            (0..SPARE).for_each(|_| drop_writers(size, length));
            SPARES.with_borrow(|spares| {
                let bytes: usize = spares.iter().map(|block| block.bytes.capacity().max(block.size)).sum();
                assert!(spares.len() <= SPARE && bytes <= SPARE_BYTES, "{} of {bytes}", spares.len());
            });
        }
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
