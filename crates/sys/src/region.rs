//! Memory that is filled once and then only sent from.
//!
//! An io_uring accepts a file mapping as a fixed buffer only if the file is on shared memory (ext4 and others
//! return `EFAULT`), so data for this is copied into a memfd first. No other code has a descriptor of it, and
//! it is not written after [`Region::new`]: the network card, which may read long after a send, reads the
//! original bytes.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{MapFlags, ProtFlags};

use crate::memory::Memory;

/// Bytes in separate memory, on huge pages if the system has reserved some, or uses them for shared memory.
#[derive(Debug)]
pub struct Region {
    /// In whole huge pages, if it uses huge pages. Only read after [`Region::new`] has returned.
    memory: Memory,
    length: usize,
    id: u64,
}

impl Region {
    /// Region of `length` bytes, zeroed and then written by `fill`.
    ///
    /// # Errors
    /// `EINVAL` for an empty length, `ENOMEM` without enough memory, else errors of `fill` and the calls.
    pub fn new<E: From<io::Error>>(
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Region, E> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1); // 0 is never used
        let region = Region { memory: map(length)?, length, id: NEXT_ID.fetch_add(1, Relaxed) };
        // SAFETY: the mapping is as long as that, all of it is there to be written, it begins as zeros, and
        // nobody else knows of it until this function is over: the descriptor is closed, and `region` is not
        // shared yet.
        let bytes = unsafe { std::slice::from_raw_parts_mut(region.memory.start(), length) };
        fill(bytes)?;
        Ok(region)
    }

    /// Bytes of the region.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long as that, and nothing has written to it since `new` was over.
        unsafe { std::slice::from_raw_parts(self.memory.start(), self.length) }
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Number that is unique among all regions of this process, past and future; never 0.
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// Maps new memory of at least this length.
fn map(length: usize) -> io::Result<Memory> {
    const HUGE: usize = 2 << 20;
    if length == 0 {
        return Err(Errno::INVAL.into());
    }
    if length >= HUGE {
        let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        // Fails without enough reserved huge pages, which are optional.
        if let Ok(memory) = map_memfd(length.next_multiple_of(HUGE), flags) {
            return Ok(memory);
        }
    }
    map_memfd(length, MemfdFlags::empty())
}

/// Bytes allocated per call; a signal may interrupt a call.
const PIECE: usize = 8 << 20;

fn map_memfd(length: usize, flags: MemfdFlags) -> io::Result<Memory> {
    let file = memfd_create("wirepath-region", flags | MemfdFlags::CLOEXEC)?;
    ftruncate(&file, length as u64)?;
    let memory = Memory::of_file(&file, length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)?;
    // All pages are allocated now: later, a missing page would cause a fatal signal instead of an error.
    // MADV_POPULATE_WRITE is not used, because it holds the lock of the process's address space until it has
    // finished: all threads that allocate would wait, and the caller's priority may be low.
    for start in (0..length).step_by(PIECE) {
        let piece = PIECE.min(length - start) as u64;
        retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), start as u64, piece))?;
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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

    /// A low-priority thread that creates a region, on a processor with other runnable threads, does not stop
    /// threads that map memory, as the allocator does.
    #[test]
    fn nobody_waits_for_a_region_that_is_made_slowly() {
        const LENGTH: usize = 64 << 20;
        let (begun, begin) = std::sync::mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let stay = |cpu: usize| {
            let mut cpus = CpuSet::new();
            cpus.set(cpu);
            sched_setaffinity(None, &cpus).unwrap();
        };
        let allowed = sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
        let over = Arc::clone(&is_over);
        let busy = std::thread::spawn(move || {
            stay(cpu);
            while !over.load(Relaxed) {}
        });
        let making = std::thread::spawn(move || {
            stay(cpu);
            rustix::process::nice(10).unwrap(); // of this thread only
            begun.send(()).unwrap();
            Region::new::<io::Error>(LENGTH, |_| Ok(())).unwrap()
        });
        begin.recv().unwrap();
        // A waiting thread yields the processor voluntarily; a preempted thread does not.
        let waits = || crate::usage::waits_of_thread().unwrap();
        let (before, mut mappings) = (waits(), 0);
        while !making.is_finished() {
            drop(Memory::anonymous(4096, ProtFlags::READ, MapFlags::PRIVATE).unwrap());
            mappings += 1;
        }
        let waited = waits() - before;
        is_over.store(true, Relaxed);
        busy.join().unwrap();
        let _region = making.join().unwrap();
        assert!(waited * 10 < mappings, "{waited} of {mappings} mappings waited");
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
