//! Memory whose pages can be lent to the kernel: owned, page-aligned, not writable while lent.
//!
//! A [`PageBuffer`] is written by its single owner. [`PageBuffer::share`] turns it into [`SharedPages`],
//! which any code may read and send from, and none can write. Each send that lends returns a [`Lent`], which
//! has to be kept until the kernel reports the end of the loan. When all other shares are dropped and all
//! loans have ended, [`SharedPages::reclaim`] returns the writable buffer. Freeing the memory while it is
//! lent is harmless, since the kernel holds the pages; writing to it would not be.

use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags};

use crate::memory::Memory;
use crate::send::{self, Mode};

/// Page-aligned anonymous memory, zeroed, with all pages present from the start.
#[derive(Debug)]
pub struct PageBuffer(Memory);

impl PageBuffer {
    /// Allocates `length` bytes from the start of a page.
    ///
    /// # Errors
    /// `EINVAL` for an empty length, else errors of `mmap`.
    pub fn new(length: usize) -> io::Result<PageBuffer> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::POPULATE);
        Memory::anonymous(length, access, flags).map(PageBuffer)
    }

    /// Makes the bytes ready to send; they cannot be written until [`SharedPages::reclaim`].
    pub fn share(self) -> SharedPages {
        SharedPages(Arc::new(Shared { buffer: self, lost: AtomicBool::new(false) }))
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: our own memory is readable and initialised with zeros; it lives as long as `self`, and only
        // `deref_mut` gives out a way to write it.
        unsafe { std::slice::from_raw_parts(self.0.start(), self.0.length()) }
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.start(), self.0.length()) }
    }
}

/// Bytes that can be read and sent by several owners and written by none.
#[derive(Clone, Debug)]
pub struct SharedPages(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    buffer: PageBuffer,
    /// True if a loan was dropped before the kernel reported its end, so that the end will never be known.
    lost: AtomicBool,
}

/// Error of reclaiming pages.
#[derive(Debug, thiserror::Error)]
pub enum ReclaimError {
    /// There is another share, or an outstanding loan.
    #[error("the pages are still lent or shared; try again after the loans have completed")]
    InUse(SharedPages),
    /// A loan was dropped before its end: its sink was dropped earlier.
    #[error(
        "a loan of the pages was abandoned before its completion, so the pages stay read-only; allocate new pages"
    )]
    Lost(SharedPages),
}

impl SharedPages {
    /// Returns the writable buffer, if this is the only share and there are no outstanding loans.
    pub fn reclaim(self) -> Result<PageBuffer, ReclaimError> {
        if self.0.lost.load(Relaxed) {
            return Err(ReclaimError::Lost(self));
        }
        let shared = Arc::try_unwrap(self.0).map_err(|pages| ReclaimError::InUse(SharedPages(pages)))?;
        // Checked again, now that no other owner can drop a loan; `try_unwrap` synchronises with earlier
        // writes.
        if shared.lost.load(Relaxed) {
            return Err(ReclaimError::Lost(SharedPages(Arc::new(shared))));
        }
        Ok(shared.buffer)
    }

    /// Sends a copy of the range; returns the number of bytes sent. Never blocks.
    ///
    /// # Errors
    /// `EINVAL` for a range outside the pages, else errors of `send`.
    pub fn copy(&self, socket: BorrowedFd<'_>, range: Range<usize>) -> io::Result<usize> {
        send::send(socket, self.vector(range)?, Mode::Copy)
    }

    /// Sends the range and lends its pages; returns the number of bytes sent, and the loan. Never blocks.
    ///
    /// # Errors
    /// `EINVAL` for a range outside the pages, `ENOBUFS` if too much is lent already (`net.core.optmem_max`,
    /// RLIMIT_MEMLOCK), else errors of `send`.
    pub fn lend(&self, socket: BorrowedFd<'_>, range: Range<usize>) -> io::Result<(usize, Lent)> {
        let taken = send::send(socket, self.vector(range)?, Mode::Lend)?;
        Ok((taken, self.promise()))
    }

    /// Loan of all pages, for a future send.
    pub(crate) fn promise(&self) -> Lent {
        Lent(Some(self.clone()))
    }

    fn vector(&self, range: Range<usize>) -> io::Result<libc::iovec> {
        self.0.buffer.0.vector(range)
    }
}

impl Deref for SharedPages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.buffer
    }
}

/// Loan of pages. A dropped loan is given up: the pages are then never written again.
#[derive(Debug)]
#[must_use = "dropping a loan gives up its pages"]
pub struct Lent(Option<SharedPages>);

impl Lent {
    /// Ends the loan, after the kernel has reported its end.
    pub fn returned(mut self) {
        self.0 = None;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(pages) = &self.0 {
            pages.0.lost.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn lend(pages: &SharedPages) -> Lent {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        crate::zerocopy::enable(sender.as_fd()).unwrap();
        let (taken, lent) = pages.lend(sender.as_fd(), 1..5).unwrap();
        let mut buffer = [0; 10];
        assert_eq!((taken, receiver.recv(&mut buffer).unwrap()), (4, 4));
        assert_eq!(buffer[..4], pages[1..5]);
        lent
    }

    fn written() -> SharedPages {
        let mut buffer = PageBuffer::new(5000).unwrap();
        assert_eq!(buffer.as_ptr().addr() % rustix::param::page_size(), 0);
        buffer[..5].copy_from_slice(b"01234");
        buffer.share()
    }

    #[test]
    fn pages_are_written_again_only_when_all_loans_are_back() {
        let pages = written();
        let (first, second) = (lend(&pages), lend(&pages));
        first.returned();
        let Err(ReclaimError::InUse(pages)) = pages.reclaim() else { panic!("one loan is out") };
        second.returned();
        let mut buffer = pages.reclaim().unwrap();
        buffer[0] = 1;
    }

    #[test]
    fn pages_whose_loan_was_given_up_are_never_written_again() {
        let pages = written();
        drop(lend(&pages));
        let Err(ReclaimError::Lost(pages)) = pages.reclaim() else {
            panic!("nobody knows of the loan's end")
        };
        assert_eq!(&pages[..5], b"01234");
    }

    #[test]
    fn a_range_outside_is_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = written().copy(socket.as_fd(), 4999..5001).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
