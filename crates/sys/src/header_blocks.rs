//! Memory for generated headers that are lent to the kernel, in blocks that are rewritten one at a time.

use std::io;

use crate::pages::PageBuffer;

/// Length in bytes of a generated header.
pub const HEADER_LENGTH: usize = 12;

/// Generated header.
pub type Header = [u8; HEADER_LENGTH];

/// Bytes of a block: a power of two, so that no block crosses a page.
const BLOCK_LENGTH: usize = 128;

/// Blocks of headers on separate pages: if they are dropped while lent, no other code writes the pages.
#[derive(Debug)]
pub struct HeaderBlocks(PageBuffer);

impl HeaderBlocks {
    /// Headers per block. A lent train has no room for more: each header needs a fragment and its payload
    /// another one, and there are 17.
    pub const HEADERS: usize = 8;

    /// Allocates `count` blocks.
    ///
    /// # Errors
    /// `EINVAL` for 0 blocks, else errors of `mmap`.
    pub fn new(count: usize) -> io::Result<HeaderBlocks> {
        PageBuffer::new(count * BLOCK_LENGTH).map(HeaderBlocks)
    }

    /// Headers of block `number`; empty if there is no such block.
    #[inline]
    pub(crate) fn block(&mut self, number: usize) -> &mut [Header] {
        let start = number * BLOCK_LENGTH;
        let bytes = self.0.get_mut(start..start + Self::HEADERS * HEADER_LENGTH);
        bytes.map(|bytes| bytes.as_chunks_mut().0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_and_cross_no_page() {
        let mut blocks = HeaderBlocks::new(64).unwrap();
        for number in 0..64 {
            let block = blocks.block(number);
            assert_eq!(block.len(), HeaderBlocks::HEADERS);
            assert_eq!(block.as_flattened(), [0; HeaderBlocks::HEADERS * HEADER_LENGTH]);
            let range = block.as_flattened().as_ptr_range();
            assert_eq!(range.start.addr() / 4096, (range.end.addr() - 1) / 4096);
            block.as_flattened_mut().fill(1);
        }
        assert!(blocks.block(64).is_empty());
    }
}
