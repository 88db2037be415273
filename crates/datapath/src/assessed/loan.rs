//! `loan`: the page loan of the zero-copy protocol paper (002), today. A send lends its pages where that is
//! cheaper than a copy, and is copied where it is not: one call, one copy or none.
//!
//! Size, alignment ([`crate::LoanPolicy`]) and device decide: a device that neither gathers nor computes
//! checksums always gets copies. So does a route on which the kernel turned the last loans into copies,
//! except for occasional attempts to lend. The pages are those of a mapped file, or the caller's
//! ([`BlockSink::send_pages`]).

use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;
use wirepath_sys::pages::SharedPages;
use wirepath_sys::ring::Socket;

use super::block_sink::{BlockRequest, BlockSink};
use super::mmap_zerocopy;
use crate::{SendContext, SendError};

/// Sends the extent, or its first bytes if the sink is a stream; returns how many.
#[inline]
pub(crate) fn send(request: &BlockRequest<'_>) -> Result<usize, SendError> {
    if request.sink.lends(&request.extent.in_memory()) {
        return mmap_zerocopy::send(request);
    }
    request.sink.counted_copy(request.copy())
}

impl BlockSink {
    /// Sends a range of a caller's own pages as [`crate::BlockPath::Loan`] does: to a UDP socket as one
    /// datagram (or train) or not at all, to a TCP connection as much of it as it accepts now. Returns how
    /// many bytes. Never blocks; allocates nothing.
    ///
    /// Lent pages are kept until their loan is completed; then [`SharedPages::reclaim`] returns them for
    /// writing. A dropped sink abandons outstanding loans: their bytes are sent, but the pages are freed and
    /// not reused.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn send_pages(&self, pages: &SharedPages, range: Range<usize>) -> Result<usize, SendError> {
        if self.lends(&range) {
            let lend = || pages.lend(self.socket(), range.clone()).map(|(taken, loan)| (taken, Some(loan)));
            if let Some(taken) = self.lend(lend)? {
                return Ok(taken);
            }
        }
        self.copy_pages(pages, range)
    }

    /// Like [`BlockSink::send_pages`], but lends by the io_uring of `context` (SEND_ZC), if it has one. Such
    /// loans are counted with the others; the ring completes them, and they are abandoned with `context`.
    pub fn send_pages_by_ring(
        &self,
        pages: &SharedPages,
        range: Range<usize>,
        context: &mut SendContext,
    ) -> Result<usize, SendError> {
        let Some(lender) = self.lender.as_ref().filter(|_| context.has_ring()) else {
            return self.send_pages(pages, range);
        };
        if !self.lends_by_ring(&range) {
            return self.copy_pages(pages, range);
        }
        let socket = Arc::clone(&self.socket) as Socket;
        let sent = context.ring()?.lend(socket, pages, range.clone(), &lender.by_ring)?;
        context.drop_failed_ring();
        match sent {
            Some(Ok(taken)) => {
                lender.loans.borrow_mut().lent_by_ring(lender.by_ring.back());
                Ok(taken as usize)
            }
            Some(Err(errno)) if errno != Errno::NOBUFS => Err(self.failed(crate::uring::CALL, errno)),
            _ => self.copy_pages(pages, range),
        }
    }
}
