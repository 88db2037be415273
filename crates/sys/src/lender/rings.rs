//! Descriptors of this process's rings, for a child of `fork`, which has those of all threads.
//!
//! Entries are single words, read and written without a lock: in the child no thread is left that could release one.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Most rings that are known; a child keeps others open.
const MOST: usize = 1024;

/// No ring.
const FREE: u64 = 0;

/// Inode and descriptor of each ring: programs close numbers that they did not open, and have other files there.
static RINGS: [AtomicU64; MOST] = [const { AtomicU64::new(FREE) }; MOST];

/// Notes the descriptor of a ring.
pub(super) fn note(ring: RawFd) {
    if let Some(entry) = entry_of(ring) {
        let is_taken = |place: &&AtomicU64| place.compare_exchange(FREE, entry, Relaxed, Relaxed).is_ok();
        let _unknown = RINGS.iter().find(is_taken);
    }
}

/// Forgets the descriptor of a ring that is about to be closed.
pub(super) fn forget(ring: RawFd) {
    if let Some(entry) = entry_of(ring) {
        let is_freed = |place: &&AtomicU64| place.compare_exchange(entry, FREE, Relaxed, Relaxed).is_ok();
        let _unknown = RINGS.iter().find(is_freed);
    }
}

/// Closes all that are still rings.
///
/// # Safety
/// Nobody uses them in this process.
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

/// Lower half of the inode's number, and the descriptor; none of a descriptor that is not open.
fn entry_of(ring: RawFd) -> Option<u64> {
    // SAFETY: whether it is open is what the call tells.
    let stat = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(ring) }).ok()?;
    Some(stat.st_ino << 32 | u64::from(ring as u32))
}
