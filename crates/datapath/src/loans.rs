//! What a sink has lent to the kernel and not got back: counted, and read back from the socket's error queue now and then.
//!
//! The kernel numbers the loans of a socket and tells when they are over, many at a time. Nothing here blocks but
//! [`Loans::wait`]; reading back costs a call for some dozens of loans.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use wirepath_sys::zerocopy::{self, Returned};

/// Sends that lent, and sends that might have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoanCounts {
    /// Sends that lent their pages to the kernel.
    pub loans: u64,
    /// Sends that were copied: by the policy's choice, or because nothing more could be lent at the moment.
    pub copies: u64,
    /// Loans that the kernel turned into copies, of those that are back. It merges notices of neighbouring loans under the
    /// first one's word, so where some were copied and some not, this is an estimate.
    pub copied_by_kernel: u64,
    /// Loans that are not back: their pages must not change.
    pub outstanding: u64,
}

/// Loans of one socket; `T` is what must be kept until the loan that it belongs to is over.
#[derive(Debug)]
pub(crate) struct Loans<T> {
    counts: LoanCounts,
    /// The number that the kernel gives to the next loan.
    next: u32,
    /// What is kept, by number; nothing where the loan is over but an earlier one is not.
    kept: VecDeque<(u32, Option<T>)>,
    room: usize,
    /// Loans since the error queue was read.
    unread: u32,
    /// What becomes of what was kept.
    over: fn(T),
}

/// Loans between two readings of the error queue. Before Linux 6.8 `net.core.optmem_max` allowed some tens of loans.
const READ_EVERY: u32 = crate::LOANS_FOR_A_READING as u32;
/// Notices read on the way to a send.
const NOTICES: u32 = 8;
/// Loans to try before the kernel's word on all of them is believed.
const TRIALS: u64 = 16;

impl<T> Loans<T> {
    /// Room to keep `room` things, which are given to `over` when their loan is over.
    pub(crate) fn new(room: usize, over: fn(T)) -> Loans<T> {
        let kept = VecDeque::with_capacity(room);
        Loans { counts: LoanCounts::default(), next: 0, kept, room, unread: 0, over }
    }

    pub(crate) fn counts(&self) -> LoanCounts {
        self.counts
    }

    /// Counts a send that was copied.
    pub(crate) fn copied(&mut self) {
        self.counts.copies += 1;
    }

    /// Whether the kernel copies whatever is lent on this socket.
    pub(crate) fn are_pointless(&self) -> bool {
        let back = self.counts.loans - self.counts.outstanding;
        back >= TRIALS && self.counts.copied_by_kernel == back
    }

    /// Lends by `send`, which answers what it sent and what must be kept. Answers nothing if nothing can be lent now: a copy is
    /// the way.
    ///
    /// # Errors
    /// `EAGAIN` if the socket is full or the kernel wants some loans back before it takes more; else what `send` says.
    #[inline]
    pub(crate) fn lend<S>(
        &mut self,
        socket: BorrowedFd<'_>,
        mut send: impl FnMut() -> io::Result<(S, Option<T>)>,
    ) -> Result<Option<S>, Errno> {
        if self.unread >= READ_EVERY || self.kept.len() >= self.room {
            self.read(socket)?;
            if self.kept.len() >= self.room {
                return Ok(None);
            }
        }
        let mut sent = send();
        if is_too_much(&sent) {
            self.read_all(socket)?;
            sent = send();
            if is_too_much(&sent) {
                // With nothing lent, waiting changes nothing: the limits are too low, or used up by others.
                return if self.counts.outstanding > 0 { Err(Errno::AGAIN) } else { Ok(None) };
            }
        }
        match sent {
            Ok((sent, kept)) => {
                self.lent(kept);
                Ok(Some(sent))
            }
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::INVAL);
                if errno != Errno::AGAIN {
                    // It may have got a number before it failed; if so, its notice is there already.
                    self.read_all(socket)?;
                }
                Err(errno)
            }
        }
    }

    fn lent(&mut self, kept: Option<T>) {
        if kept.is_some() {
            self.kept.push_back((self.next, kept));
        }
        self.next = self.next.wrapping_add(1);
        self.counts.loans += 1;
        self.counts.outstanding += 1;
        self.unread += 1;
    }

    /// Reads some notices, if any are to be expected. Never blocks.
    pub(crate) fn read(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        self.unread = 0;
        for _ in 0..NOTICES {
            if self.counts.outstanding == 0 || !self.read_one(socket)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads all notices there are: at most one for each loan.
    #[cold]
    fn read_all(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        while self.read_one(socket)? {}
        Ok(())
    }

    /// Waits until all loans are back, at most for `timeout`; answers whether they are.
    pub(crate) fn wait(&mut self, socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + timeout;
        loop {
            let before = self.counts.outstanding;
            self.read_all(socket)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if self.counts.outstanding == 0 || left.is_zero() {
                return Ok(self.counts.outstanding == 0);
            }
            // A connection that is gone is always ready; then we look now and then.
            let is_ready = before == self.counts.outstanding && is_ready(socket)?;
            let pause = if is_ready { left.min(Duration::from_millis(1)) } else { left };
            let pause = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
            let mut sockets = [PollFd::new(&socket, PollFlags::empty())]; // the error queue is always told
            let watched = if is_ready { &mut [][..] } else { &mut sockets[..] };
            match poll(watched, Some(&pause)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn read_one(&mut self, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        match zerocopy::returned(socket) {
            Ok(Some(returned)) => self.take_back(returned),
            Ok(None) => return Ok(false),
            Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL)),
        }
        Ok(true)
    }

    fn take_back(&mut self, returned: Returned) {
        let mut back = u64::from(returned.last.wrapping_sub(returned.first)) + 1;
        let beyond = returned.last.wrapping_sub(self.next); // 0 and more if a send was numbered that then failed
        if (beyond as i32) >= 0 {
            back = back.saturating_sub(u64::from(beyond) + 1);
            self.next = returned.last.wrapping_add(1);
        }
        let back = back.min(self.counts.outstanding);
        self.counts.outstanding -= back;
        self.counts.copied_by_kernel += if returned.copied { back } else { 0 };
        for (number, kept) in &mut self.kept {
            if number.wrapping_sub(returned.first) <= returned.last.wrapping_sub(returned.first)
                && let Some(kept) = kept.take()
            {
                (self.over)(kept);
            }
        }
        while self.kept.pop_front_if(|(_, kept)| kept.is_none()).is_some() {}
    }
}

fn is_too_much<S>(sent: &io::Result<S>) -> bool {
    sent.as_ref().is_err_and(|error| Errno::from_io_error(error) == Some(Errno::NOBUFS))
}

fn is_ready(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut sockets = [PollFd::new(&socket, PollFlags::empty())];
    Ok(poll(&mut sockets, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_loans(count: u32) -> Loans<()> {
        let mut loans = Loans::new(8, |()| ());
        (0..count).for_each(|_| loans.lent(Some(())));
        loans
    }

    fn returned(first: u32, last: u32, copied: bool) -> Returned {
        Returned { first, last, copied }
    }

    #[test]
    fn room_is_free_again_in_order() {
        let mut loans = with_loans(4);
        loans.take_back(returned(1, 2, false));
        assert_eq!((loans.counts.outstanding, loans.kept.len()), (2, 4));
        loans.take_back(returned(0, 0, true));
        assert_eq!((loans.counts.outstanding, loans.kept.len(), loans.counts.copied_by_kernel), (1, 1, 1));
        loans.take_back(returned(3, 3, false));
        assert_eq!((loans.counts.outstanding, loans.kept.len(), loans.next), (0, 0, 4));
    }

    #[test]
    fn numbers_that_failed_sends_used_up_are_passed_over() {
        let mut loans = with_loans(2);
        loans.take_back(returned(1, 3, false)); // loan 1, and two failures that merged with it
        assert_eq!((loans.counts.outstanding, loans.next), (1, 4));
        loans.take_back(returned(4, 4, false)); // one more failure, nothing of ours
        assert_eq!((loans.counts.outstanding, loans.next), (1, 5));
        loans.lent(Some(()));
        loans.take_back(returned(5, 5, false));
        loans.take_back(returned(0, 0, false));
        assert_eq!((loans.counts.outstanding, loans.kept.len()), (0, 0));
    }

    #[test]
    fn numbers_wrap() {
        let mut loans = Loans::new(8, |()| ());
        loans.next = u32::MAX;
        loans.lent(Some(()));
        loans.lent(Some(()));
        assert_eq!(loans.next, 1);
        loans.take_back(returned(u32::MAX, 0, false));
        assert_eq!((loans.counts.outstanding, loans.kept.len(), loans.next), (0, 0, 1));
    }

    #[test]
    fn loans_that_are_always_copied_are_pointless() {
        let mut loans = with_loans(0);
        for number in 0..TRIALS as u32 {
            assert!(!loans.are_pointless());
            loans.lent(None);
            loans.take_back(returned(number, number, true));
        }
        assert!(loans.are_pointless());
        loans.lent(None);
        loans.take_back(returned(TRIALS as u32, TRIALS as u32, false));
        assert!(!loans.are_pointless());
    }
}
