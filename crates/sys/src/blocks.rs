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

/// A block with no bytes of its own, and its size: so many bytes of it are initialised.
struct Spare {
    block: BytesMut,
    size: usize,
}

thread_local! {
    /// Blocks of writers that were dropped on this thread, in that order. Parts of them may be in use.
    static SPARES: RefCell<VecDeque<Spare>> = const { RefCell::new(VecDeque::new()) };
}

/// Blocks of one writer. Blocks that are left when it is dropped serve the next writers of the thread.
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

    /// Block of at least `length` bytes whose parts have all been dropped: one of this writer, or of an earlier
    /// one.
    fn free(&mut self, length: usize) -> Option<BytesMut> {
        if length > self.size {
            return None;
        }
        let mut block = self.free_of_own().or_else(|| free_of_earlier(self.size))?;
        // SAFETY: the block has `self.size` bytes, as it was reclaimed. It was allocated filled with zeros, and
        // only slices of initialised bytes were given out of it and of its parts since: all of it is initialised.
        unsafe { block.set_len(self.size) };
        Some(block)
    }

    fn free_of_own(&mut self) -> Option<BytesMut> {
        let place = self.used.iter_mut().position(|block| is_free(block, self.size))?;
        self.used.remove(place)
    }
}

/// Empties the block, and returns whether no part of its `size` bytes is in use.
fn is_free(block: &mut BytesMut, size: usize) -> bool {
    block.clear();
    block.try_reclaim(size)
}

/// Block of `size` bytes or more of a writer that was dropped.
fn free_of_earlier(size: usize) -> Option<BytesMut> {
    SPARES.with_borrow_mut(|spares| {
        let place =
            spares.iter_mut().position(|spare| spare.size >= size && is_free(&mut spare.block, size))?;
        spares.remove(place).map(|spare| spare.block)
    })
}

fn bytes_of(spares: &VecDeque<Spare>) -> usize {
    spares.iter().map(|spare| spare.size).sum()
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let size = self.size;
        let last = self.rest.take_if(|_| !self.is_long);
        let left = last.into_iter().chain(mem::take(&mut self.used));
        // A thread that ends has no spare blocks any more.
        let _ = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            spares.extend(left.map(|block| Spare { block, size }));
            let mut bytes = bytes_of(&spares);
            while bytes > SPARE_BYTES || spares.len() > SPARE {
                bytes -= spares.pop_front().map_or(bytes, |spare| spare.size);
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
        let again = [part(100, 3, 1), part(50, 4, 50), part(20, 5, 7)];
        assert!(again.iter().any(|part| part.as_ptr() == place), "for blocks that are no longer");
        assert!(again.iter().zip(3..).all(|(part, byte)| part.iter().all(|other| *other == byte)));
        drop(again);
        drop(part(PAGE, 6, PAGE));
        assert_eq!(part(PAGE, 7, 1)[..], [7]);
    }

    #[test]
    fn a_thread_keeps_few_blocks_of_earlier_writers() {
        let kept = || SPARES.with_borrow(|spares| (spares.len(), bytes_of(spares)));
        for _ in 0..3 * SPARE {
            let writers: Vec<Blocks> = (0..3)
                .map(|_| {
                    let mut blocks = Blocks::new(10);
                    blocks.room(10);
                    blocks
                })
                .collect();
            drop(writers);
        }
        assert!(kept().0 <= SPARE, "{:?}", kept());
        for length in [MOST, MOST + 1, SPARE_BYTES / 2 + 1, SPARE_BYTES / 2 + 1] {
            let mut first = Blocks::new(10);
            let mut second = Blocks::new(10);
            first.room(length);
            second.room(length);
            drop((first, second));
            assert!(kept().1 <= SPARE_BYTES, "{:?}", kept());
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
