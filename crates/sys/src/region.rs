//! Memory that is filled once and then only sent from.
//!
//! An io_uring takes a mapping of an ordinary file as a fixed buffer only if it is on shared memory (ext4 and
//! others answer `EFAULT`), so what is to be sent that way is copied into a memfd first. Nobody else has a
//! descriptor of it, and nobody writes to it once [`Region::new`] is over: what the network card reads long
//! after a send is what was put there.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Bytes in memory of their own, on huge pages where the system has set some aside or gives them on demand.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    length: usize,
    /// As mapped: in whole huge pages, if it is on such.
    mapped: usize,
    id: u64,
}

// SAFETY: from the end of `new` on the memory is only read, which any number of threads may do.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// A region of `length` bytes, zeros at first, with what `fill` writes to it.
    ///
    /// # Errors
    /// `EINVAL` for an empty length, `ENOMEM` without enough memory, else those of `fill` and the calls.
    pub fn new<E: From<io::Error>>(
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Region, E> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1); // 0 is nobody's
        let (start, mapped) = map(length)?;
        let region = Region { start, length, mapped, id: NEXT_ID.fetch_add(1, Relaxed) };
        // SAFETY: the mapping is as long as that, all of it is there to be written, it begins as zeros, and
        // nobody else knows of it until this function is over: the descriptor is closed, and `region` is not
        // shared yet.
        let bytes = unsafe { std::slice::from_raw_parts_mut(region.start.as_ptr(), length) };
        fill(bytes)?;
        Ok(region)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long as that, and nothing has written to it since `new` was over.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// A number that no other region of this process has had or will have; never 0.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this is our own mapping, and no slice of it outlives the borrow of `self` it came from.
        // Pages that the kernel still sends from are pinned, and are given to nobody else until it is done
        // with them.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
        debug_assert!(result.is_ok(), "unmapping our own mapping cannot fail");
    }
}

/// Maps fresh memory; answers where and how much.
fn map(length: usize) -> io::Result<(NonNull<u8>, usize)> {
    const HUGE: usize = 2 << 20;
    if length == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if length >= HUGE {
        let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let rounded = length.next_multiple_of(HUGE);
        // Fails where not enough huge pages were set aside; nothing depends on them.
        if let Ok(start) = map_memfd(rounded, flags) {
            return Ok((start, rounded));
        }
    }
    Ok((map_memfd(length, MemfdFlags::empty())?, length))
}

fn map_memfd(length: usize, flags: MemfdFlags) -> io::Result<NonNull<u8>> {
    let memory = memfd_create("wirepath-region", flags | MemfdFlags::CLOEXEC)?;
    ftruncate(&memory, length as u64)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh address is asked for, so no existing memory of this process is replaced.
    let start = unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &memory, 0)? };
    // Only where shared memory is given huge pages on demand, and only a hint.
    // SAFETY: the advice concerns the mapping just made and changes nothing in it.
    let _ = unsafe { madvise(start, length, Advice::LinuxHugepage) };
    // All pages now: later, memory that is not there would be a fatal signal instead of an error.
    // SAFETY: as above; the pages are ours to be brought in.
    let populated = unsafe { madvise(start, length, Advice::LinuxPopulateWrite) };
    if let Err(errno) = populated {
        // SAFETY: the mapping was made above and nobody knows of it.
        let _ = unsafe { munmap(start, length) };
        return Err(errno.into());
    }
    NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_keeps_what_it_was_filled_with() {
        for length in [1, 4097, (2 << 20) + 1] {
            let region = Region::new::<io::Error>(length, |bytes| {
                assert!(bytes.iter().all(|byte| *byte == 0));
                bytes.fill(7);
                Ok(())
            })
            .unwrap();
            assert_eq!((region.length(), region.bytes().len()), (length, length));
            assert!(region.bytes().iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn regions_are_told_apart() {
        let region = || Region::new::<io::Error>(1, |_| Ok(())).unwrap().id();
        let (one, other) = (region(), region());
        assert!(one != other && one != 0 && other != 0);
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        assert!(Region::new::<io::Error>(0, |_| Ok(())).is_err());
        assert!(Region::new::<io::Error>(1 << 60, |_| Ok(())).is_err());
        let refused = Region::new::<io::Error>(1, |_| Err(io::ErrorKind::UnexpectedEof.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
