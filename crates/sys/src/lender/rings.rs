//! Descriptors of this process's rings, for a child of `fork`, which inherits those of all threads.
//!
//! Entries are single words, accessed without a lock: the child has no other thread that could release a
//! lock.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum number of recorded rings; a child leaves further rings open.
const MOST: usize = 1024;

/// No ring.
const FREE: u64 = 0;

/// Inode and descriptor of each ring: programs may close descriptors that they did not open, and reuse the
/// numbers.
static RINGS: [AtomicU64; MOST] = [const { AtomicU64::new(FREE) }; MOST];

/// Records the descriptor of a ring.
pub(super) fn note(ring: RawFd) {
    if let Some(entry) = entry_of(ring) {
        let is_taken = |place: &&AtomicU64| place.compare_exchange(FREE, entry, Relaxed, Relaxed).is_ok();
        let _unknown = RINGS.iter().find(is_taken);
    }
}

/// Removes the descriptor of a ring that is about to be closed.
pub(super) fn forget(ring: RawFd) {
    if let Some(entry) = entry_of(ring) {
        let is_freed = |place: &&AtomicU64| place.compare_exchange(entry, FREE, Relaxed, Relaxed).is_ok();
        let _unknown = RINGS.iter().find(is_freed);
    }
}

/// Closes all recorded descriptors that are still rings.
///
/// # Safety
/// The rings are not used in this process.
pub(super) unsafe fn close_all() {
    for place in &RINGS {
        let entry = place.swap(FREE, Relaxed);
        let ring = entry as u32 as RawFd;
        if entry != FREE && entry_of(ring) == Some(entry) {
            // SAFETY: it is a ring of this module's, which the caller has made sure that nobody uses.
            unsafe { libc::close(ring) };
        }
    }
}

/// Lower half of the inode number, and the descriptor; `None` for a descriptor that is not open.
fn entry_of(ring: RawFd) -> Option<u64> {
    // SAFETY: whether it is open is what the call tells.
    let stat = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(ring) }).ok()?;
    Some(stat.st_ino << 32 | u64::from(ring as u32))
}
