//! Reads data that is needed only once: if the kernel supports it, without leaving pages in the page cache.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// `RWF_DONTCACHE` of `linux/fs.h` (Linux 6.14; ext4, XFS and Btrfs among others).
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// Fills `bytes` by reading. Pages that this brings into the page cache are dropped after copying; pages that
/// were there stay. Without kernel support (an older kernel, another file system), it reads as usual.
///
/// For parts of megabytes: with shorter parts, the kernel's read-ahead would be dropped and read again.
///
/// # Errors
///
/// `UnexpectedEof` if the file ends before, else those of reading.
pub(crate) fn read_once(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match preadv2(file, &mut [IoSliceMut::new(bytes)], offset, DONT_CACHE) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                bytes = &mut bytes[read..];
                offset += read as u64;
            }
            Err(Errno::INTR) => {}
            // The last two come from filters of system calls.
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::PERM) => {
                return file.read_exact_at(bytes, offset);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Checks whether the kernel can read from a file without leaving pages in the page cache.
///
/// # Errors
///
/// `EOPNOTSUPP` if it cannot (before Linux 6.14, or on this file system), else those of reading.
pub fn uncached_reads(file: &File) -> io::Result<()> {
    preadv2(file, &mut [IoSliceMut::new(&mut [0])], 0, DONT_CACHE)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageCache;
    use rustix::fs::{Advice, fadvise};

    const LENGTH: u64 = 4 << 20;

    /// A file of numbered words that is not in the page cache, if its file system has a page cache.
    fn cold() -> File {
        let file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..LENGTH as u32 / 4).flat_map(u32::to_be_bytes).collect();
        file.write_all_at(&bytes, 0).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        file
    }

    /// Promise: Pages copied into hot memory leave the page cache unless they were there before, if the
    /// kernel supports it.
    #[test]
    fn what_is_read_once_is_not_kept_unless_it_was_there() {
        let file = cold();
        let mut bytes = vec![0; LENGTH as usize - 4];
        read_once(&file, &mut bytes, 4).unwrap();
        let words: Vec<u32> =
            bytes.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        assert!(words.into_iter().eq(1..LENGTH as u32 / 4));
        if uncached_reads(&file).is_ok() {
            assert_eq!(PageCache::of(&file, 8192..LENGTH), PageCache::Cold);
        }
        file.read_exact_at(&mut bytes, 4).unwrap();
        let cached = PageCache::of(&file, 4..LENGTH);
        read_once(&file, &mut bytes, 4).unwrap();
        assert_eq!(PageCache::of(&file, 4..LENGTH), cached);
    }

    #[test]
    fn a_file_that_ends_too_early_is_an_error() {
        let error = read_once(&cold(), &mut [0; 8], LENGTH - 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
