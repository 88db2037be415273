//! Memory of this process as seen by the kernel: areas, protected pages, bytes, and removal of pages.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

use crate::{checked, ioctl};

/// `linux/fs.h`: PROCMAP_QUERY, of Linux 6.11.
const PROCMAP_QUERY: u32 = 0xc068_6611;
const AREA_READABLE: u64 = 1;
const AREA_WRITABLE: u64 = 2;
const AREA_SHARED: u64 = 8;

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    area_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

/// Memory area with uniform access rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) start: usize,
    pub(super) end: usize,
    /// True if the pages belong to no file and no other process, and are readable and writable.
    pub(super) is_private: bool,
}

/// `/proc/self/maps` and `/proc/self/pagemap`.
#[derive(Debug)]
pub(super) struct ProcessMemory {
    areas: File,
    pages: File,
}

/// Bit of a page's entry in `pagemap`: write-protected by userfaultfd.
const PROTECTED: u64 = 1 << 57;

/// Maximum number of pages queried by one call.
pub(super) const PAGES_AT_A_TIME: usize = 16;

impl ProcessMemory {
    /// Opens both files.
    ///
    /// # Errors
    /// `ENOTTY` before Linux 6.11.
    pub(super) fn open() -> io::Result<ProcessMemory> {
        let memory =
            ProcessMemory { areas: File::open("/proc/self/maps")?, pages: File::open("/proc/self/pagemap")? };
        let somewhere = [0_u8];
        memory.area(somewhere.as_ptr().addr())?;
        Ok(memory)
    }

    /// Descriptors of both files.
    pub(super) fn as_fds(&self) -> [RawFd; 2] {
        [self.areas.as_raw_fd(), self.pages.as_raw_fd()]
    }

    /// Area that contains this address.
    ///
    /// # Errors
    /// `ENOENT` if there is none.
    pub(super) fn area(&self, address: usize) -> io::Result<Area> {
        let mut query =
            Query { size: size_of::<Query>() as u64, address: address as u64, ..Query::default() };
        // SAFETY: the request reads and writes this structure, which asks for no name and no build ID.
        unsafe { ioctl(&self.areas, PROCMAP_QUERY, &raw mut query) }?;
        let rights = query.area_flags & (AREA_READABLE | AREA_WRITABLE | AREA_SHARED);
        let is_private = rights == AREA_READABLE | AREA_WRITABLE && query.inode == 0;
        Ok(Area { start: query.start as usize, end: query.end as usize, is_private })
    }

    /// Length of the first run of protected pages from `start` on, and number of pages before it. Checks at
    /// most [`PAGES_AT_A_TIME`] pages.
    pub(super) fn protected_run(&self, start: usize, pages: usize, page_size: usize) -> (usize, usize) {
        let mut entries = [0_u8; 8 * PAGES_AT_A_TIME];
        let wanted = pages.min(PAGES_AT_A_TIME);
        let at = (start / page_size * 8) as u64;
        if self.pages.read_exact_at(&mut entries[..8 * wanted], at).is_err() {
            return (wanted, 0);
        }
        let is_protected = |page: usize| {
            let entry: [u8; 8] = std::array::from_fn(|byte| entries[8 * page + byte]);
            u64::from_ne_bytes(entry) & PROTECTED != 0
        };
        let before = (0..wanted).find(|&page| is_protected(page)).unwrap_or(wanted);
        let run = (before..wanted).take_while(|&page| is_protected(page)).count();
        (before, run)
    }
}

/// Reads memory of this process that may be unmapped concurrently, which causes an error instead of a signal.
pub(super) fn read(start: usize, buffer: &mut [u8]) -> io::Result<()> {
    let length = buffer.len();
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: length };
    // SAFETY: the kernel writes to `buffer` only, and answers `EFAULT` for what it cannot read.
    let read = checked(unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) })?;
    if read == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Removes pages, also locked pages: other references keep them.
///
/// # Safety
/// Threads that touch the pages must wait until they are filled with their previous bytes.
pub(super) unsafe fn take_away(start: usize, length: usize) -> io::Result<()> {
    let address = std::ptr::without_provenance_mut(start);
    // SAFETY: the caller has made sure that nobody sees the pages empty.
    checked(unsafe { libc::madvise(address, length, libc::MADV_DONTNEED_LOCKED) } as isize).map(drop)
}
