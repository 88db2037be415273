//! Mappings of files whose bytes only the kernel reads.
//!
//! A file can be truncated or rewritten under its mapping, which makes a Rust slice over it unsound and a read
//! beyond the end a fatal signal. So a [`Mapping`] never gives out a slice: its ranges are handed to the kernel,
//! which answers `EFAULT` where a process would be killed.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::send::{self, Mode};

/// A shared read-only mapping of the first bytes of a file.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is never written and never read by this process; its address is only passed to the kernel.
unsafe impl Send for Mapping {}
// SAFETY: as above: there is no access that could race.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes from the start of `file`, which may be (or become) shorter than that.
    ///
    /// # Errors
    /// `EINVAL` for an empty length, else what `mmap` says.
    pub fn new(file: impl AsFd, length: usize) -> io::Result<Mapping> {
        // SAFETY: a fresh address is asked for, so no existing memory of this process is replaced.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file.as_fd(), 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mapping { start, length })
    }

    /// Length in bytes, as asked for.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Sends a copy of the range; answers how many bytes were taken. Never blocks.
    ///
    /// # Errors
    /// `EINVAL` for a range outside the mapping, `EFAULT` where the mapped file has become shorter, else what `send` says.
    pub fn copy(&self, socket: BorrowedFd<'_>, range: Range<usize>) -> io::Result<usize> {
        let vector = self.vector(range).ok_or(io::ErrorKind::InvalidInput)?;
        send::send(socket, vector, Mode::Copy)
    }

    /// Sends the range and lends its pages, which are the page cache's; answers how many bytes were taken. Never blocks. The
    /// loan comes back by [`crate::zerocopy::returned`]; the mapping may go before.
    ///
    /// # Errors
    /// As [`Mapping::copy`], and `ENOBUFS` when too much is lent already (`net.core.optmem_max`, RLIMIT_MEMLOCK).
    pub fn lend(&self, socket: BorrowedFd<'_>, range: Range<usize>) -> io::Result<usize> {
        let vector = self.vector(range).ok_or(io::ErrorKind::InvalidInput)?;
        send::send(socket, vector, Mode::Lend)
    }

    /// Address and length of a range for an `iovec`, or nothing if it does not lie inside the mapping.
    pub(crate) fn vector(&self, range: Range<usize>) -> Option<libc::iovec> {
        if range.start > range.end || range.end > self.length {
            return None;
        }
        // SAFETY: the offset was just checked to lie inside the mapping.
        let base = unsafe { self.start.as_ptr().add(range.start) };
        Some(libc::iovec { iov_base: base.cast(), iov_len: range.end - range.start })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of our own mapping, and nobody holds an address into it: `vector`
        // lends them only for the duration of a call that borrows the mapping, and a loan of pages is one of the pages.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(result.is_ok(), "unmapping our own mapping cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_outside_is_refused() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let mapping = Mapping::new(&file, 4096).unwrap();
        assert_eq!(mapping.vector(0..4096).unwrap().iov_len, 4096);
        assert!(mapping.vector(4095..4097).is_none());
        assert!(mapping.vector(usize::MAX - 1..usize::MAX).is_none());
    }

    #[test]
    fn an_empty_mapping_is_an_error() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Mapping::new(&file, 0).is_err());
    }
}
