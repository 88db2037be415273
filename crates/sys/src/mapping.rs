//! Mappings whose bytes only the kernel reads and writes.
//!
//! A file can be truncated or rewritten under its mapping, which makes a Rust slice over it unsound and a
//! read beyond the end a fatal signal; the same applies to memory that another process shares. So a
//! [`Mapping`] never returns a slice: its ranges are passed to the kernel, which returns `EFAULT` where a
//! process would be killed.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use bytes::{BufMut, BytesMut};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise};
use rustix::param::page_size;

use crate::memory::Memory;
use crate::send::{self, FLAGS, Mode};
use crate::{checked, errno_of};

/// Maximum number of ranges per call: `UIO_MAXIOV` of the kernel.
pub const MAXIMUM_RANGES: usize = 1024;

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Shared mapping of the first bytes of a file, or of memory.
#[derive(Debug)]
pub struct Mapping {
    /// Memory that this process accesses by system calls only.
    memory: Memory,
    is_writable: bool,
}

impl Mapping {
    /// Maps `length` bytes from the start of `file` for reading; the file may be (or become) shorter.
    ///
    /// # Errors
    /// `EINVAL` for an empty length, else errors of `mmap`.
    pub fn new(file: impl AsFd, length: usize) -> io::Result<Mapping> {
        Mapping::with(file, length, ProtFlags::READ, MapFlags::SHARED)
    }

    /// Like [`Mapping::new`], with all pages of the file mapped immediately, read from storage if necessary,
    /// so that sends take no page faults. Pages that cannot be read cause errors of later sends.
    pub fn populated(file: impl AsFd, length: usize) -> io::Result<Mapping> {
        Mapping::with(file, length, ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE)
    }

    /// Like [`Mapping::new`], for reading and writing, without extending the file.
    ///
    /// # Errors
    /// See [`Mapping::new`]; `EACCES` if the file is not open for both.
    pub fn writable(file: impl AsFd, length: usize) -> io::Result<Mapping> {
        Mapping::with(file, length, READ_WRITE, MapFlags::SHARED)
    }

    /// Maps zeroed anonymous memory for reading and writing. Forked processes share it.
    pub fn anonymous(length: usize) -> io::Result<Mapping> {
        Ok(Mapping { memory: Memory::anonymous(length, READ_WRITE, MapFlags::SHARED)?, is_writable: true })
    }

    fn with(file: impl AsFd, length: usize, access: ProtFlags, flags: MapFlags) -> io::Result<Mapping> {
        let memory = Memory::of_file(file, length, access, flags)?;
        Ok(Mapping { memory, is_writable: access.contains(ProtFlags::WRITE) })
    }

    /// Requested length in bytes.
    pub fn length(&self) -> usize {
        self.memory.length()
    }

    /// Sends a copy of the range; returns the number of bytes sent. Never blocks.
    ///
    /// # Errors
    /// `EINVAL` for a range outside the mapping, `EFAULT` if the mapped file has become shorter.
    pub fn copy(&self, socket: BorrowedFd<'_>, range: Range<usize>) -> io::Result<usize> {
        send::send(socket, self.vector(range)?, Mode::Copy)
    }

    /// Sends a copy of the concatenated ranges by one call; returns the number of bytes sent. Never blocks
    /// for room. With `is_followed` an incomplete segment is held back for later data.
    ///
    /// # Errors
    /// See [`Mapping::copy`]; `EMSGSIZE` for more than [`MAXIMUM_RANGES`].
    pub fn copy_all(
        &self,
        socket: BorrowedFd<'_>,
        ranges: impl Iterator<Item = Range<usize>>,
        is_followed: bool,
    ) -> io::Result<usize> {
        let mut vectors = ranges.map(|range| self.vector(range)).collect::<io::Result<Vec<_>>>()?;
        let flags = if is_followed { FLAGS | libc::MSG_MORE } else { FLAGS };
        send::send_all(socket, &mut vectors, flags)
    }

    /// Sends bytes followed by a copy of the range, by one call; returns the number of bytes sent. Never
    /// blocks for room.
    ///
    /// # Errors
    /// See [`Mapping::copy`].
    pub fn copy_behind(
        &self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        range: Range<usize>,
    ) -> io::Result<usize> {
        let front = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        send::send_all(socket, &mut [front, self.vector(range)?], FLAGS)
    }

    /// Sends the range and lends its pages, which belong to the page cache; returns the number of bytes sent.
    /// Never blocks. [`crate::zerocopy::returned`] reports the end of the loan; the mapping may be dropped
    /// earlier.
    ///
    /// # Errors
    /// See [`Mapping::copy`]; `ENOBUFS` for too many loans (`net.core.optmem_max`, RLIMIT_MEMLOCK).
    pub fn lend(&self, socket: BorrowedFd<'_>, range: Range<usize>) -> io::Result<usize> {
        send::send(socket, self.vector(range)?, Mode::Lend)
    }

    /// Appends a copy of the range to `buffer`; returns the number of bytes, which are fewer if the mapped
    /// file ends earlier. May block to read from storage.
    ///
    /// # Errors
    /// `EINVAL` for a range outside the mapping, `EFAULT` if the mapped file has become shorter, else errors
    /// of `process_vm_readv` (`EPERM` or `ENOSYS` if a container's filter forbids it).
    pub fn read(&self, range: Range<usize>, buffer: &mut BytesMut) -> io::Result<usize> {
        let from = self.vector(range)?;
        buffer.reserve(from.iov_len);
        let to = libc::iovec { iov_base: buffer.chunk_mut().as_mut_ptr().cast(), iov_len: from.iov_len };
        // SAFETY: `to` is spare capacity of the buffer, `from` lies in our own mapping; both outlive the
        // call.
        let read = unsafe { libc::process_vm_readv(ourselves(), &raw const to, 1, &raw const from, 1, 0) };
        let read = checked(read)?;
        // SAFETY: the kernel wrote this many bytes to the front of the spare capacity.
        unsafe { buffer.advance_mut(read) };
        Ok(read)
    }

    /// Brings the pages of the range into memory and into the page table, so that a call that reads them soon
    /// does not wait; they may be reclaimed again. Nothing is copied (`MADV_POPULATE_READ`, Linux 5.14);
    /// where the kernel cannot do that, each byte is read once. May block.
    ///
    /// # Errors
    /// See [`Mapping::read`]: `EINVAL` for a range outside the mapping, `EFAULT` if the mapped file has
    /// become shorter; and `EHWPOISON` for defective memory.
    pub fn prefault(&self, range: Range<usize>) -> io::Result<()> {
        match self.populate(range.clone()) {
            Err(error) if errno_of(&error) == Errno::INVAL => self.read_through(range),
            populated => populated,
        }
    }

    /// Like [`Mapping::prefault`], but fails where the kernel cannot do that.
    ///
    /// # Errors
    /// See [`Mapping::prefault`]; `EINVAL` also before Linux 5.14.
    pub fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let vector = self.vector(range)?;
        let before = vector.iov_base.addr() % page_size();
        let (start, length) = (vector.iov_base.wrapping_byte_sub(before), vector.iov_len + before);
        loop {
            // SAFETY: the pages are those of our own mapping, which begins at one; the advice changes no byte
            // of them.
            match unsafe { madvise(start, length, Advice::LinuxPopulateRead) } {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Makes a call that touches a page read only that page from storage, without read-around: for mappings
    /// that are [brought in](Mapping::prefault) before. Advice, which may fail.
    pub fn expect_random_access(&self) {
        // SAFETY: the pages are those of our own mapping, which begins at one; the advice changes no byte of
        // them.
        let _ = unsafe { madvise(self.memory.start().cast(), self.memory.length(), Advice::Random) };
    }

    /// Removes the whole pages of the range from the page table, so that the page cache may drop them. A
    /// later call that reads them takes page faults, and reads missing pages from storage.
    ///
    /// # Errors
    /// `EINVAL` for a range outside the mapping.
    pub fn forget(&self, range: Range<usize>) -> io::Result<()> {
        let first = range.start.next_multiple_of(page_size());
        let end = range.end / page_size() * page_size();
        if first >= end {
            return Ok(());
        }
        let vector = self.vector(first..end)?;
        // SAFETY: the pages are those of our own mapping, which begins at one. Only calls read it, and a
        // shared mapping reads the file's bytes again.
        unsafe { madvise(vector.iov_base, vector.iov_len, Advice::LinuxDontNeed)? };
        Ok(())
    }

    /// Reads a range, and discards the data.
    fn read_through(&self, mut range: Range<usize>) -> io::Result<()> {
        const STEP: usize = 256 * 1024;
        let mut buffer = BytesMut::with_capacity(STEP);
        while !range.is_empty() {
            buffer.clear();
            range.start += self.read(range.start..range.end.min(range.start + STEP), &mut buffer)?;
        }
        Ok(())
    }

    /// Writes `slices` to the beginning of the range, as far as it has room; returns the number of bytes. May
    /// block.
    ///
    /// # Errors
    /// `EACCES` for a read-only mapping, else see [`Mapping::read`] (`process_vm_writev`).
    pub fn write(&self, range: Range<usize>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let to = self.writable_vector(range)?;
        // SAFETY: an `IoSlice` is an `iovec` on Unix, and the slices are only read; `to` lies in our own
        // mapping. All outlive the call.
        let written = unsafe {
            let (from, count) = (slices.as_ptr().cast(), slices.len() as libc::c_ulong);
            libc::process_vm_writev(ourselves(), from, count, &raw const to, 1, 0)
        };
        checked(written)
    }

    /// Reads available data of a pipe or connection directly into the range; returns the number of bytes. May
    /// block.
    ///
    /// # Errors
    /// `EACCES` for a read-only mapping, `EINVAL` and `EFAULT` as in [`Mapping::read`].
    pub fn fill(&self, range: Range<usize>, source: BorrowedFd<'_>) -> io::Result<usize> {
        let to = self.writable_vector(range)?;
        // SAFETY: the bytes lie in our own mapping, which is there longer than the call takes.
        checked(unsafe { libc::read(source.as_raw_fd(), to.iov_base, to.iov_len) })
    }

    /// Makes a pipe refer to the pages of the range, as far as it has room (`vmsplice`); returns the number
    /// of bytes, which are not copied. Never waits for room. Writes to the mapping change the data until it
    /// has left the pipe, and whatever it was spliced to.
    ///
    /// # Errors
    /// `EAGAIN` if the pipe has no room; `EINVAL` and `EFAULT` as in [`Mapping::read`].
    pub fn refer(&self, range: Range<usize>, pipe: BorrowedFd<'_>) -> io::Result<usize> {
        let vector = self.vector(range)?;
        // SAFETY: the bytes lie in our own mapping; the pipe holds references to their pages, however long
        // that is there.
        checked(unsafe { libc::vmsplice(pipe.as_raw_fd(), &raw const vector, 1, libc::SPLICE_F_NONBLOCK) })
    }

    fn writable_vector(&self, range: Range<usize>) -> io::Result<libc::iovec> {
        if self.is_writable { self.vector(range) } else { Err(Errno::ACCESS.into()) }
    }

    /// Address and length of a range, for calls that borrow the mapping.
    #[inline]
    pub(crate) fn vector(&self, range: Range<usize>) -> io::Result<libc::iovec> {
        self.memory.vector(range)
    }
}

/// Process id of this process, for calls on its own mappings.
fn ourselves() -> libc::pid_t {
    std::process::id() as libc::pid_t
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    fn of_bytes(bytes: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn what_is_written_is_read_again_and_in_the_file() {
        let mut file = of_bytes(b"0123456789");
        let mapping = Mapping::writable(&file, 10).unwrap();
        assert_eq!(mapping.write(2..9, &[IoSlice::new(b"ab"), IoSlice::new(b"c")]).unwrap(), 3);
        assert_eq!(mapping.write(8..10, &[IoSlice::new(b"longer")]).unwrap(), 2, "as far as there is room");
        let mut read = BytesMut::from(&b"> "[..]);
        assert_eq!(mapping.read(1..10, &mut read).unwrap(), 9);
        assert_eq!(read, &b"> 1abc567lo"[..]);
        let mut bytes = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut bytes).unwrap();
        assert_eq!(bytes, "01abc567lo");
    }

    #[test]
    fn a_pipe_is_filled_by_reference_and_emptied_into_a_mapping() {
        let (from, to) = (Mapping::anonymous(8192).unwrap(), Mapping::anonymous(8192).unwrap());
        let bytes: Vec<u8> = (0..8192).map(|at| (at * 7 / 3) as u8).collect();
        from.write(0..8192, &[IoSlice::new(&bytes)]).unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(from.refer(100..8192, writer.as_fd()).unwrap(), 8092);
        assert_eq!(to.fill(10..8102, reader.as_fd()).unwrap(), 8092);
        let mut read = BytesMut::new();
        to.read(10..8102, &mut read).unwrap();
        assert_eq!(read, &bytes[100..]);
    }

    #[test]
    fn ranges_are_sent_by_one_call_in_their_order() {
        let mapping = Mapping::new(of_bytes(b"0123456789"), 10).unwrap();
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        let ranges = [8..10, 0..1, 3..3, 2..4];
        assert_eq!(mapping.copy_all(near.as_fd(), ranges.into_iter(), false).unwrap(), 5);
        let mut received = [0; 5];
        far.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"89023");
        let too_many = std::iter::repeat_n(0..1, MAXIMUM_RANGES + 1);
        let error = mapping.copy_all(near.as_fd(), too_many, false).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        assert!(mapping.copy_all(near.as_fd(), std::iter::once(9..11), false).is_err());
    }

    #[test]
    fn bytes_and_a_range_behind_them_are_sent_by_one_call() {
        let file = of_bytes(&[7; 8192]);
        let mapping = Mapping::new(&file, 8192).unwrap();
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(mapping.copy_behind(near.as_fd(), b"head", 8190..8192).unwrap(), 6);
        assert_eq!(mapping.copy_behind(near.as_fd(), b"", 0..1).unwrap(), 1);
        let mut received = [0; 7];
        far.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"head\x07\x07\x07");
        assert!(mapping.copy_behind(near.as_fd(), b"head", 1..8193).is_err());
        file.set_len(4096).unwrap();
        let error = mapping.copy_behind(near.as_fd(), b"", 4096..8192).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    /// Promise: If a mapped file is truncated, its stream ends with an error, not the process.
    ///
    /// A process that accessed the mapping itself would be killed.
    #[test]
    fn beyond_the_end_of_a_file_that_was_truncated_there_is_an_error() {
        let file = of_bytes(&[7; 8192]);
        let mapping = Mapping::writable(&file, 8192).unwrap();
        file.set_len(4096).unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"some").unwrap();
        let faults = [
            mapping.prefault(4100..8192).map(|()| 0),
            mapping.prefault(0..8192).map(|()| 0),
            mapping.read_through(0..8192).map(|()| 0),
            mapping.read(4096..8192, &mut BytesMut::new()),
            mapping.write(4096..8192, &[IoSlice::new(b"some")]),
            mapping.fill(4096..8192, reader.as_fd()),
            mapping.refer(4096..8192, writer.as_fd()),
        ];
        for fault in faults {
            assert_eq!(fault.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        }
        let mut read = BytesMut::new();
        assert_eq!(mapping.read(4000..8192, &mut read).unwrap(), 96, "what is still there");
    }

    #[test]
    fn what_is_only_to_be_read_is_not_written() {
        let file = of_bytes(b"some");
        let mapping = Mapping::new(&file, 4).unwrap();
        let error = mapping.write(0..4, &[IoSlice::new(b"else")]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EACCES));
    }

    #[test]
    fn a_range_outside_is_refused() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let mapping = Mapping::new(&file, 4096).unwrap();
        assert_eq!(mapping.vector(0..4096).unwrap().iov_len, 4096);
        assert!(mapping.vector(4095..4097).is_err());
        assert!(mapping.vector(usize::MAX - 1..usize::MAX).is_err());
        assert!(mapping.prefault(4095..4097).is_err());
    }

    /// Bytes of the mapping that are in the page table.
    fn mapped(mapping: &Mapping) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let head = format!("{:x}-", mapping.memory.start() as usize);
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&head));
        let resident = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Promise: The pages of a mapping are loaded before an engine thread sends them.
    #[test]
    fn what_is_brought_in_is_mapped() {
        let mapping = Mapping::new(of_bytes(&[7; 1 << 20]), 1 << 20).unwrap();
        mapping.prefault(0..0).unwrap();
        mapping.prefault((1 << 19) + 1..1 << 20).unwrap();
        // The kernel may map surrounding pages as well.
        let there = mapped(&mapping);
        assert!((1 << 19..=1 << 20).contains(&there), "{there} bytes are mapped");
    }

    #[test]
    fn what_is_forgotten_is_not_mapped() {
        let mapping = Mapping::populated(of_bytes(&[7; 1 << 20]), 1 << 20).unwrap();
        mapping.forget(1..4096).unwrap();
        assert_eq!(mapped(&mapping), 1 << 20, "a part of a page stays");
        mapping.forget(1..1 << 19).unwrap();
        assert_eq!(mapped(&mapping), (1 << 19) + 4096);
        let mut read = BytesMut::new();
        assert_eq!(mapping.read(8192..8194, &mut read).unwrap(), 2);
        assert_eq!(read, &[7, 7][..]);
        assert!(mapping.forget(0..2 << 20).is_err());
    }

    /// Promise: With a warm cache, all pages are mapped before a run, so no run takes the page faults.
    #[test]
    fn a_populated_mapping_has_every_page() {
        let file = of_bytes(&[7; 1 << 20]);
        assert_eq!(mapped(&Mapping::new(&file, 1 << 20).unwrap()), 0);
        assert_eq!(mapped(&Mapping::populated(&file, 1 << 20).unwrap()), 1 << 20);
    }

    #[test]
    fn an_empty_mapping_is_an_error() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Mapping::new(&file, 0).is_err());
    }
}
