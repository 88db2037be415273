//! Presence of files in the page cache.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::checked;

/// Number of pages of `range` (in bytes) that are in the page cache, by `cachestat` (Linux 6.5). Never
/// blocks.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, `EOPNOTSUPP` on hugetlbfs, else errors of the call.
pub fn cached_pages(file: BorrowedFd<'_>, range: Range<u64>) -> io::Result<u64> {
    if range.is_empty() {
        return Ok(0); // a length of 0 means "to the end of the file" to the kernel
    }
    let span = CachestatRange { offset: range.start, length: range.end - range.start };
    let mut stat = Cachestat::default();
    // SAFETY: both structures have the layout of `linux/mman.h` and outlive the call, which writes only
    // `stat`.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const span, &raw mut stat, 0 as libc::c_uint)
    };
    checked(result as isize)?;
    Ok(stat.cached)
}

/// Same number on all architectures (unified table, Linux 6.5); not yet in `libc` for all of them.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

/// `struct cachestat`.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn freshly_written_pages_are_cached() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 5 * 4096]).unwrap();
        match cached_pages(file.as_fd(), 4096..4 * 4096) {
            Ok(pages) => assert_eq!(pages, 3),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS), "{error}"),
        }
    }
}
