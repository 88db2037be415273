//! Known bytes, determined by the position in a stream, for sources to send.
//!
//! The pattern is stored in a memory file, so that sources send it by reference, at the lowest cost for the
//! machine.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::error::{Doing, Error};

/// Period of the pattern: a prime number of pages, so that blocks of any size begin with distinct bytes.
const LENGTH: usize = 1021 * 4096;

/// Bytes that identify a position in the pattern.
pub(crate) const KEY: usize = 16;

/// Distance in the pattern between streams of adjacent connections: in pages, coprime to the pattern's
/// length.
const APART: u64 = 64 * 4096;

/// Position in the pattern where the stream of a connection begins.
pub(crate) fn start_of(connection: usize) -> u64 {
    connection as u64 * APART
}

/// Pattern bytes.
pub(crate) struct Pattern {
    bytes: Vec<u8>,
    file: File,
}

impl Pattern {
    /// Generates the pattern.
    pub(crate) fn new() -> Result<Pattern, Error> {
        let mut state = 0x5749_5245_5041_5448_u64;
        let mut bytes = Vec::with_capacity(LENGTH);
        while bytes.len() < LENGTH {
            // xorshift64*: not compressible, without repetition.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        let memory: OwnedFd =
            memfd_create("pattern", MemfdFlags::CLOEXEC).doing("making memory to send from")?;
        let mut file = File::from(memory);
        file.write_all(&bytes).doing("filling memory to send from")?;
        Ok(Pattern { bytes, file })
    }

    /// Memory file to send from.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Offset in [`Pattern::file`] of the byte at `position` of a stream, and the number of bytes from there
    /// to the end.
    pub(crate) fn piece(&self, position: u64) -> (u64, usize) {
        let offset = position % LENGTH as u64;
        (offset, LENGTH - offset as usize)
    }

    /// Bytes of a stream from `position` on.
    pub(crate) fn bytes(&self, position: u64, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let (offset, there) = self.piece(position + bytes.len() as u64);
            let offset = offset as usize;
            bytes.extend_from_slice(&self.bytes[offset..offset + there.min(length - bytes.len())]);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn blocks_of_any_size_begin_with_bytes_of_their_own() {
        let pattern = Pattern::new().unwrap();
        for size in [1316, 4096, 65_536, 1 << 20] {
            let blocks = LENGTH / size;
            let keys: HashSet<Vec<u8>> =
                (0..blocks).map(|block| pattern.bytes((block * size) as u64, KEY)).collect();
            assert_eq!(keys.len(), blocks, "{size}");
        }
    }

    #[test]
    fn it_begins_again_at_its_end_and_the_file_has_the_same() {
        use std::os::unix::fs::FileExt;
        let pattern = Pattern::new().unwrap();
        let around = pattern.bytes(LENGTH as u64 - 3, 6);
        assert_eq!(around[3..], pattern.bytes(0, 3));
        let mut read = vec![0; 100];
        let (offset, _) = pattern.piece(LENGTH as u64 + 5000);
        pattern.file().read_exact_at(&mut read, offset).unwrap();
        assert_eq!(read, pattern.bytes(5000, 100));
    }
}
