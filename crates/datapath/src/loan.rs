//! `loan`: the page loan of the zero-copy protocol paper (002), today. A send lends its pages where that is cheaper than a copy,
//! and is copied where it is not: one call, one copy or none.
//!
//! What is cheaper is a question of size and alignment ([`crate::LoanPolicy`]) and of the device: one that neither gathers nor
//! computes checksums is sent copies in any case, and so is, but for a trial now and then, a route on which the kernel turned the
//! last loans into copies. The pages are a medium's, or of a caller's own ([`BlockSink::send_pages`]).

use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;
use wirepath_sys::device;
use wirepath_sys::pages::SharedPages;
use wirepath_sys::ring::Socket;

use crate::{BlockSink, Extent, MappedFile, SendContext, SendError, mmap_send, mmap_zerocopy};

/// Sends the extent, or its first bytes if the sink is a stream; answers how many.
#[inline]
pub(crate) fn send(sink: &BlockSink, medium: &MappedFile, extent: Extent) -> Result<usize, SendError> {
    if sink.lends(&extent.in_memory()) {
        return mmap_zerocopy::send(sink, medium, extent);
    }
    sink.counted_copy(mmap_send::send(sink, medium, extent))
}

/// Sends a range of a caller's own pages; answers how many bytes were taken.
pub(crate) fn send_pages(
    sink: &BlockSink,
    pages: &SharedPages,
    range: Range<usize>,
) -> Result<usize, SendError> {
    let socket = sink.socket.as_fd();
    if sink.lends(&range) {
        let lend = || pages.lend(socket, range.clone()).map(|(taken, loan)| (taken, Some(loan)));
        if let Some(taken) = sink.lend(lend)? {
            return Ok(taken);
        }
    }
    sink.copy_pages(pages, range)
}

/// As `send_pages`, lending by the thread's ring if it has one.
pub(crate) fn send_pages_by_ring(
    sink: &BlockSink,
    pages: &SharedPages,
    range: Range<usize>,
    scratch: &mut SendContext,
) -> Result<usize, SendError> {
    let lender = sink.lender.as_ref().filter(|_| scratch.has_ring() && sink.lends(&range));
    let Some(lender) = lender else { return send_pages(sink, pages, range) };
    let socket = Arc::clone(&sink.socket) as Socket;
    let sent = scratch.ring()?.lend(socket, pages, range.clone(), &lender.by_ring)?;
    scratch.drop_failed_ring();
    match sent {
        Some(Ok(taken)) => {
            lender.loans.borrow_mut().lent_by_ring(lender.by_ring.back());
            Ok(taken as usize)
        }
        Some(Err(errno)) if errno != Errno::NOBUFS => Err(sink.failed(crate::uring::CALL, errno)),
        _ => sink.copy_pages(pages, range),
    }
}

/// Whether the device that owns `local` can send pages that are lent. One that does not say is given the benefit of the doubt:
/// the kernel copies for it, says so, and is believed.
pub(crate) fn device_takes_loans(socket: BorrowedFd<'_>, local: IpAddr) -> bool {
    let Ok(Some(name)) = device::with_address(local) else { return true };
    device::offloads_checksums(socket, &name).unwrap_or(true)
        && device::gathers(socket, &name).unwrap_or(true)
}
