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
        Mapping::with(file.as_fd(), length, MapFlags::SHARED)
    }

    /// The same, with every page of the file mapped at once, read from storage if need be: no send of them faults then. What
    /// cannot be read is left for a send to tell.
    ///
    /// # Errors
    /// As [`Mapping::new`].
    pub fn populated(file: impl AsFd, length: usize) -> io::Result<Mapping> {
        Mapping::with(file.as_fd(), length, MapFlags::SHARED | MapFlags::POPULATE)
    }

    fn with(file: BorrowedFd<'_>, length: usize, flags: MapFlags) -> io::Result<Mapping> {
        // SAFETY: a fresh address is asked for, so no existing memory of this process is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, flags, file, 0)? };
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
    fn a_populated_mapping_has_every_page() {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        let mapped = |mapping: &Mapping| {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let head = format!("{:x}-", mapping.start.as_ptr() as usize);
            let mut lines = maps.lines().skip_while(|line| !line.starts_with(&head));
            let resident = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
            resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
        };
        assert_eq!(mapped(&Mapping::new(&file, 1 << 20).unwrap()), 0);
        assert_eq!(mapped(&Mapping::populated(&file, 1 << 20).unwrap()), 1 << 20);
    }

    #[test]
    fn an_empty_mapping_is_an_error() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Mapping::new(&file, 0).is_err());
    }
}
