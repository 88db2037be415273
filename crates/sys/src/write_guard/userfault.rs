//! userfaultfd: write protection of pages, and events of threads that write to them (`userfaultfd(2)`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{checked, ioctl};

/// System call, and ABI of `linux/userfaultfd.h`, missing in `libc`.
const API: u64 = 0xaa;
const FEATURE_WRITE_PROTECT: u64 = 1 << 0;
const FEATURE_EVENT_REMAP: u64 = 1 << 2;
const FEATURE_THREAD_ID: u64 = 1 << 8;
/// Since Linux 6.4: pages that are not present are protected, too.
const FEATURE_UNPOPULATED: u64 = 1 << 13;
const REQUEST_API: u32 = 0xc018_aa3f;
const REQUEST_REGISTER: u32 = 0xc020_aa00;
const REQUEST_UNREGISTER: u32 = 0x8010_aa01;
const REQUEST_WAKE: u32 = 0x8010_aa02;
const REQUEST_COPY: u32 = 0xc028_aa03;
const REQUEST_WRITE_PROTECT: u32 = 0xc018_aa06;
const REGISTER_MISSING: u64 = 1 << 0;
const REGISTER_WRITE_PROTECT: u64 = 1 << 1;
const PROTECT: u64 = 1 << 0;
const PROTECT_DO_NOT_WAKE: u64 = 1 << 1;
const EVENT_PAGE_FAULT: u8 = 0x12;
const EVENT_REMAP: u8 = 0x14;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Pages {
    start: u64,
    length: u64,
}

#[repr(C)]
struct Register {
    pages: Pages,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct WriteProtect {
    pages: Pages,
    mode: u64,
}

#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    length: u64,
    mode: u64,
    copied: i64,
}

/// `struct uffd_msg`: a page fault has flags, an address and a thread; a move has two addresses and a length.
#[repr(C)]
#[derive(Default)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    words: [u64; 3],
}

/// Event of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The thread waits at this address until the page is filled again or the thread is woken.
    Fault { address: usize, thread: u32 },
    /// `mremap` moved pages, with their protection.
    Moved { to: usize, length: usize },
}

/// A userfaultfd of this process. Ranges are whole pages.
#[derive(Debug)]
pub(super) struct Userfault {
    descriptor: OwnedFd,
    /// Device and number of the inode, which no other file has.
    inode: (u64, u64),
}

impl Userfault {
    /// Opens a userfaultfd, also for faults of the kernel: `read` into a protected page must work.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_PTRACE` (unless `vm.unprivileged_userfaultfd` is 1), `ENOSYS` or `EINVAL` if
    /// the kernel cannot write-protect pages (before Linux 5.7).
    pub(super) fn open() -> io::Result<Userfault> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the call takes flags and answers a descriptor, which is nobody else's.
        let descriptor = checked(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } as isize)?;
        // SAFETY: as above.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
        let inode = inode(descriptor.as_fd())?;
        let features = FEATURE_WRITE_PROTECT | FEATURE_EVENT_REMAP | FEATURE_THREAD_ID | FEATURE_UNPOPULATED;
        let mut api = Api { api: API, features, ioctls: 0 };
        // SAFETY: the request reads and writes this structure.
        unsafe { ioctl(&descriptor, REQUEST_API, &raw mut api) }?;
        Ok(Userfault { descriptor, inode })
    }

    /// Returns whether the descriptor is still this userfaultfd: programs may close descriptors that they did
    /// not open.
    pub(super) fn is_open(&self) -> bool {
        inode(self.descriptor.as_fd()).is_ok_and(|inode| inode == self.inode)
    }

    /// Registers pages of private anonymous memory for write protection.
    pub(super) fn register(&self, start: usize, length: usize) -> io::Result<()> {
        self.register_for(start, length, REGISTER_WRITE_PROTECT)
    }

    /// Like [`Userfault::register`]; in addition threads that touch a missing page wait until it is filled.
    pub(super) fn register_missing(&self, start: usize, length: usize) -> io::Result<()> {
        self.register_for(start, length, REGISTER_WRITE_PROTECT | REGISTER_MISSING)
    }

    fn register_for(&self, start: usize, length: usize, mode: u64) -> io::Result<()> {
        let mut register = Register { pages: pages(start, length), mode, ioctls: 0 };
        // SAFETY: the request reads and writes this structure. Until it is protected or taken away, registered
        // memory behaves as before.
        unsafe { ioctl(&self.descriptor, REQUEST_REGISTER, &raw mut register) }.map(drop)
    }

    /// Ends both kinds of registration, and wakes waiting threads.
    pub(super) fn unregister(&self, start: usize, length: usize) -> io::Result<()> {
        let mut pages = pages(start, length);
        // SAFETY: the request reads this structure.
        unsafe { ioctl(&self.descriptor, REQUEST_UNREGISTER, &raw mut pages) }.map(drop)
    }

    /// Makes writers of these pages wait, also on pages that were never touched: otherwise a page that
    /// another thread writes first between this call and the send would be lent without protection.
    ///
    /// # Errors
    /// `ENOENT` if not all pages are registered.
    pub(super) fn protect(&self, start: usize, length: usize) -> io::Result<()> {
        self.change_protection(start, length, PROTECT)
    }

    /// Removes the write protection. Threads that already wait are not woken.
    pub(super) fn unprotect(&self, start: usize, length: usize) -> io::Result<()> {
        self.change_protection(start, length, PROTECT_DO_NOT_WAKE)
    }

    fn change_protection(&self, start: usize, length: usize, mode: u64) -> io::Result<()> {
        // The kernel refuses the second flag together with the first.
        let mut change = WriteProtect { pages: pages(start, length), mode };
        // SAFETY: the request reads this structure; no byte of the memory changes.
        unsafe { ioctl(&self.descriptor, REQUEST_WRITE_PROTECT, &raw mut change) }.map(drop)
    }

    /// Wakes threads that wait for these pages: they retry.
    pub(super) fn wake(&self, start: usize, length: usize) -> io::Result<()> {
        let mut pages = pages(start, length);
        // SAFETY: the request reads this structure.
        unsafe { ioctl(&self.descriptor, REQUEST_WAKE, &raw mut pages) }.map(drop)
    }

    /// Fills missing pages with these bytes, and wakes threads that wait for them. Returns the number of
    /// bytes filled.
    pub(super) fn fill(&self, start: usize, bytes: &[u8]) -> io::Result<usize> {
        let (to, from, length) = (start as u64, bytes.as_ptr().addr() as u64, bytes.len() as u64);
        let mut copy = Copy { to, from, length, mode: 0, copied: 0 };
        // SAFETY: the request reads and writes this structure, and reads `bytes`. It fills only pages that are
        // not there, so no byte that anybody could see changes.
        let result = unsafe { ioctl(&self.descriptor, REQUEST_COPY, &raw mut copy) };
        match usize::try_from(copy.copied) {
            Ok(copied) if copied > 0 => Ok(copied),
            _ => result.map(|_| 0),
        }
    }

    /// Takes the next event; `None` if there is none now.
    pub(super) fn next_event(&self) -> Option<Event> {
        let mut message = Message::default();
        loop {
            // SAFETY: the message is as long as it says, and any bytes are a value of it.
            let read = checked(unsafe {
                libc::read(self.descriptor.as_raw_fd(), (&raw mut message).cast(), size_of::<Message>())
            });
            if !read.is_ok_and(|length| length == size_of::<Message>()) {
                return None;
            }
            let [first, second, third] = message.words;
            match message.event {
                EVENT_PAGE_FAULT => {
                    return Some(Event::Fault { address: second as usize, thread: third as u32 });
                }
                EVENT_REMAP => return Some(Event::Moved { to: second as usize, length: third as usize }),
                _ => debug_assert!(first == 0, "no other event was asked for"),
            }
        }
    }
}

impl AsFd for Userfault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn inode(descriptor: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(descriptor)?;
    Ok((stat.st_dev, stat.st_ino))
}

fn pages(start: usize, length: usize) -> Pages {
    Pages { start: start as u64, length: length as u64 }
}
