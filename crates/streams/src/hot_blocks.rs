//! Blocks that inputs read into, shared by all streams of a thread. The most recently used block is reused
//! first, as soon as all of its bytes have been sent. So bytes that are read, handled and sent stay in the
//! processor's cache, independent of the number of streams.

use std::cell::RefCell;
use std::fs;
use std::sync::LazyLock;

use bytes::BytesMut;
use wirepath_datapath::append;

/// Most blocks that are kept. Each has the size of one read: at most 1 MiB.
const KEPT: usize = 16;

/// Assumed size of the second-level cache if it is unknown.
const USUAL_CACHE: usize = 512 * 1024;

thread_local! {
    /// Blocks in the order of their last use, including blocks that are still being sent. A handle has no
    /// bytes of its own.
    static BLOCKS: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// Bytes that are read and handled at a time: a quarter of the second-level cache, so that the kernel's
/// source and destination of the copies fit, too.
pub(crate) fn piece() -> usize {
    static PIECE: LazyLock<usize> = LazyLock::new(|| piece_for(second_level_cache().unwrap_or(USUAL_CACHE)));
    *PIECE
}

fn piece_for(cache: usize) -> usize {
    (cache / 4).clamp(64 << 10, 256 << 10)
}

/// Size of the second-level cache of the first processor.
fn second_level_cache() -> Option<usize> {
    let of = |index: usize, name: &str| {
        let file = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
        Some(fs::read_to_string(file).ok()?.trim().to_owned())
    };
    let index = (0..8).find(|index| {
        of(*index, "level").as_deref() == Some("2") && of(*index, "type").as_deref() != Some("Instruction")
    })?;
    let kibibytes: usize = of(index, "size")?.strip_suffix('K')?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Takes an empty block with room for so many bytes, and for their alignment.
pub(crate) fn take(room: usize) -> BytesMut {
    let room = room + append::ALIGNMENT;
    let found = BLOCKS.with_borrow_mut(|blocks| {
        let place = blocks.iter_mut().rposition(|block| block.try_reclaim(room))?;
        Some(blocks.remove(place))
    });
    found.unwrap_or_else(|| BytesMut::with_capacity(room.max(piece() + append::ALIGNMENT)))
}

/// Keeps a block whose bytes were all split off, for reuse after these bytes are dropped.
pub(crate) fn put(block: BytesMut) {
    debug_assert!(block.is_empty());
    BLOCKS.with_borrow_mut(|blocks| {
        if blocks.len() == KEPT {
            blocks.remove(0);
        }
        blocks.push(block);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_that_was_used_last_is_used_again_when_its_bytes_are_gone() {
        let read = |byte| {
            let mut block = take(piece());
            block.extend_from_slice(&vec![byte; piece()]);
            let bytes = block.split();
            put(block);
            bytes
        };
        let (first, second) = (read(1), read(2));
        let (place, other) = (first.as_ptr(), second.as_ptr());
        let third = read(3);
        assert!(third.as_ptr() != place && third.as_ptr() != other, "both are in use");
        drop((first, second));
        let fourth = read(4).as_ptr();
        let fifth = read(5).as_ptr();
        assert_eq!([fourth, fifth], [other; 2], "the one of the two that was used last");
        assert!(third.iter().all(|byte| *byte == 3));
    }

    #[test]
    fn few_blocks_are_kept_and_pieces_fit_the_cache() {
        let held: Vec<BytesMut> = (0..3 * KEPT)
            .map(|_| {
                let mut block = take(piece());
                block.extend_from_slice(&vec![0; piece()]);
                let bytes = block.split();
                put(block);
                bytes
            })
            .collect();
        assert_eq!(BLOCKS.with_borrow(Vec::len), KEPT);
        drop(held);
        assert_eq!([0, 256, 512, 1024, 2048].map(|kib| piece_for(kib << 10) >> 10), [64, 64, 128, 256, 256]);
    }
}
