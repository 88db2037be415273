//! Mapped memory owned by a value.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Mapping, unmapped on drop. Its owners define who may read and write its bytes, and when.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is this value's alone, and is accessed only through unsafe code of its owners.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps zeroed anonymous memory.
    pub(crate) fn anonymous(length: usize, access: ProtFlags, flags: MapFlags) -> io::Result<Memory> {
        // SAFETY: a fresh address is asked for, so no existing memory of this process is replaced.
        Memory::at(unsafe { mmap_anonymous(std::ptr::null_mut(), length, access, flags)? }, length)
    }

    /// Maps the first bytes of a file.
    pub(crate) fn of_file(
        file: impl AsFd,
        length: usize,
        access: ProtFlags,
        flags: MapFlags,
    ) -> io::Result<Memory> {
        // SAFETY: as above.
        Memory::at(unsafe { mmap(std::ptr::null_mut(), length, access, flags, file, 0)? }, length)
    }

    fn at(start: *mut libc::c_void, length: usize) -> io::Result<Memory> {
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Memory { start, length })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Address and length of a range, for a system call.
    ///
    /// # Errors
    /// `EINVAL` for a range outside of the memory.
    pub(crate) fn vector(&self, range: Range<usize>) -> io::Result<libc::iovec> {
        if range.start > range.end || range.end > self.length {
            return Err(Errno::INVAL.into());
        }
        // SAFETY: the offset was just checked to lie inside the mapping.
        let base = unsafe { self.start().add(range.start) };
        Ok(libc::iovec { iov_base: base.cast(), iov_len: range.end - range.start })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and its owners let no reference into it outlive them.
        // Pages that the kernel still sends from it holds itself.
        let result = unsafe { munmap(self.start().cast(), self.length) };
        debug_assert!(result.is_ok(), "unmapping our own mapping cannot fail");
    }
}
