//! Page loans of a socket: counted, and completed by notifications in the socket's error queue.
//!
//! The kernel numbers the loans of a socket and reports many completed loans at a time. Nothing here blocks
//! except [`Loans::wait`]; a call reads some dozens of notifications.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use wirepath_sys::errno_of;
use wirepath_sys::zerocopy::{self, Returned};

mod routes;
pub use routes::LoanRoutes;
pub(crate) use routes::{Ends, LoanRoute};

/// Largest interval, in loans, at which a path that lends reads the socket's error queue. The first intervals
/// are 1, 2, 4, 8 and 16 loans, so that a route on which the kernel copies is noticed early. Before Linux 6.8
/// `net.core.optmem_max` allowed some tens of loans.
const LONGEST_INTERVAL: u64 = 32;

/// Most readings of the error queue by a socket that sent so many blocks, lent or copied, in addition to the
/// calls in the table of its path. Loans that the kernel refuses are not included, nor more tests of a route
/// than one in 1,024 copies, which other sockets with the same route may cause.
pub fn most_readings(sends: u64) -> u64 {
    let short_intervals = u64::from(LONGEST_INTERVAL.trailing_zeros());
    let of_a_test = u64::from(ASK_AGAIN.trailing_zeros());
    sends / LONGEST_INTERVAL + (short_intervals + of_a_test).min(sends)
}

/// Counts of sends that lent or could have lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoanCounts {
    /// Sends that lent their pages to the kernel.
    pub loans: u64,
    /// Sends that were copied: by the policy, or because no more could be lent at the moment.
    pub copies: u64,
    /// Completed loans that the kernel turned into copies. It merges notifications of neighbouring loans
    /// under the flags of the first one, so this is an estimate if some were copied and some not.
    pub copied_by_kernel: u64,
    /// Outstanding loans: their pages must not change.
    #[serde(skip)]
    pub outstanding: u64,
    /// Most loans that were outstanding at a time.
    pub outstanding_most: u64,
}

impl std::iter::Sum for LoanCounts {
    fn sum<I: Iterator<Item = LoanCounts>>(counts: I) -> LoanCounts {
        counts.fold(LoanCounts::default(), |sum, one| LoanCounts {
            loans: sum.loans.saturating_add(one.loans),
            copies: sum.copies.saturating_add(one.copies),
            copied_by_kernel: sum.copied_by_kernel.saturating_add(one.copied_by_kernel),
            outstanding: sum.outstanding.saturating_add(one.outstanding),
            outstanding_most: sum.outstanding_most.max(one.outstanding_most),
        })
    }
}

/// Loans of one socket; `T` is the value to keep until its loan is completed.
#[derive(Debug)]
pub(crate) struct Loans<T> {
    counts: LoanCounts,
    /// The number that the kernel gives to the next loan.
    next: u32,
    /// Kept values by number; `None` for a completed loan after an uncompleted one.
    kept: VecDeque<(u32, Option<T>)>,
    room: usize,
    /// Loans since the error queue was last read.
    unread: u64,
    /// Loans from one reading of the error queue to the next.
    interval: u64,
    /// Consecutive completed loans that were copied, up to now.
    copied_in_a_row: u64,
    /// True if the last completed loans were not copied.
    is_lending: bool,
    /// Experience of other sockets with the same route.
    route: Option<Arc<LoanRoute>>,
    /// Copies since the last loan, without loans by rings.
    since_last: u64,
    /// Copies since the last loan by a ring.
    since_last_by_ring: u64,
    /// Copies since the last loan at which the error queue is read again.
    next_reading: u64,
    /// Loans made by rings, which count their completions.
    by_ring: u64,
    /// Takes the kept value of a completed loan.
    over: fn(T),
}

/// Notifications read at a send.
const NOTICES: u32 = 8;
/// Longest wait in one call: the kernel refuses longer times.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// Consecutive copied loans from which lending is pointless: those of the first two readings. The kernel copies
/// because of the route, not at random, and [`ASK_AGAIN`] corrects a wrong verdict. Of a route: consecutive
/// notifications, since the flag of a merged one is that of its first loan.
const TRIALS: u64 = 3;
/// Copies before the next attempt to lend, since routes change and packet captures end.
const ASK_AGAIN: u64 = 1024;

impl<T> Loans<T> {
    /// A queue for up to `room` values, which are passed to `over` when their loans are completed.
    pub(crate) fn new(room: usize, over: fn(T)) -> Loans<T> {
        let kept = VecDeque::with_capacity(room);
        Loans {
            counts: LoanCounts::default(),
            next: 0,
            kept,
            room,
            unread: 0,
            interval: 1,
            copied_in_a_row: 0,
            is_lending: false,
            route: None,
            since_last: 0,
            since_last_by_ring: 0,
            next_reading: 1,
            by_ring: 0,
            over,
        }
    }

    pub(crate) fn counts(&self) -> LoanCounts {
        self.counts
    }

    /// The same, with the experience of other sockets that send by this route.
    pub(crate) fn with_route(mut self, route: Option<Arc<LoanRoute>>) -> Loans<T> {
        self.route = route;
        self
    }

    /// Counts a send that was copied.
    pub(crate) fn copied(&mut self) {
        self.counts.copies += 1;
        self.since_last += 1;
        self.since_last_by_ring += 1;
        if let Some(route) = &self.route {
            route.copied();
        }
    }

    /// Counts a loan made by a ring, which has received `back` completions.
    pub(crate) fn lent_by_ring(&mut self, back: u64) {
        self.by_ring += 1;
        let out = self.counts.outstanding + self.by_ring.saturating_sub(back);
        self.counts.outstanding_most = self.counts.outstanding_most.max(out);
        self.since_last_by_ring = 0;
    }

    /// Loans that rings made.
    pub(crate) fn by_ring(&self) -> u64 {
        self.by_ring
    }

    /// Returns whether the kernel currently copies all loans of this socket, judged by some in a row; before this
    /// socket has experience of its own, judged by other sockets with the same route. Loans by rings are judged
    /// by themselves: what became of them says nothing about later loans of another kind. Reads notifications if
    /// enough loans, or copies after a loan that tests the route again, were made. A test of the route that is
    /// not yet answered is not repeated by this socket, but by others.
    pub(crate) fn are_pointless(&mut self, socket: BorrowedFd<'_>) -> bool {
        if self.is_reading_due() {
            self.next_reading = (self.since_last + 1).next_power_of_two();
            let heard = self.read(socket);
            debug_assert!(heard.is_ok(), "the error queue of an open socket can be read: {heard:?}");
        }
        let copied_own = self.copies_own();
        let is_tested_again = if copied_own {
            self.since_last >= ASK_AGAIN
        } else {
            self.since_last_of_route() >= ASK_AGAIN && self.counts.outstanding == 0
        };
        (copied_own || self.copies_of_others()) && !is_tested_again
    }

    /// Returns whether the kernel currently copies all loans of this socket by rings. The route has no say: rings
    /// do not tell it about their loans.
    pub(crate) fn are_pointless_by_ring(&self, in_a_row: u64) -> bool {
        in_a_row >= TRIALS && self.since_last_by_ring < ASK_AGAIN
    }

    fn is_reading_due(&self) -> bool {
        let is_tested = || self.copies_own() || self.copies_of_others();
        match self.since_last {
            _ if self.counts.outstanding == 0 => false,
            0 => self.interval < LONGEST_INTERVAL && self.unread >= self.interval,
            // Copies of small sends count, too, so that a power of two may be passed.
            copies => copies >= self.next_reading && is_tested(),
        }
    }

    fn copies_own(&self) -> bool {
        self.copied_in_a_row >= TRIALS
    }

    fn copies_of_others(&self) -> bool {
        !self.is_lending && self.route.as_ref().is_some_and(|route| route.copies())
    }

    fn since_last_of_route(&self) -> u64 {
        self.route.as_ref().map_or(0, |route| route.since_last())
    }

    /// Lends by `send`, which returns what it sent and the value to keep; `None` if nothing can be lent now.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the socket is full; else those of `send`.
    #[inline]
    pub(crate) fn lend<S>(
        &mut self,
        socket: BorrowedFd<'_>,
        mut send: impl FnMut() -> io::Result<(S, Option<T>)>,
    ) -> Result<Option<S>, Errno> {
        if self.unread >= self.interval || self.kept.len() >= self.room {
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
                // Not `EAGAIN`: the socket has room, so a waiting sender would be woken again and again.
                return Ok(None);
            }
        }
        match sent {
            Ok((sent, kept)) => {
                self.lent(kept);
                Ok(Some(sent))
            }
            Err(error) => {
                let errno = errno_of(&error);
                if errno != Errno::AGAIN {
                    // The send may have got a number before it failed; then its notification is there
                    // already.
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
        self.counts.outstanding_most = self.counts.outstanding_most.max(self.counts.outstanding);
        self.unread += 1;
        (self.since_last, self.next_reading) = (0, 1);
    }

    /// Reads some notifications, if any are expected. Never blocks.
    pub(crate) fn read(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        self.unread = 0;
        self.interval = (self.interval * 2).min(LONGEST_INTERVAL);
        for _ in 0..NOTICES {
            if self.counts.outstanding == 0 || !self.read_one(socket)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads all pending notifications, at most one for each loan. Never blocks.
    #[cold]
    pub(crate) fn read_all(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        while self.read_one(socket)? {}
        Ok(())
    }

    /// Waits until all loans are completed, at most for `timeout`; returns whether they are.
    pub(crate) fn wait(&mut self, socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
        let deadline = Instant::now().checked_add(timeout); // no time at all is beyond it
        loop {
            let before = self.counts.outstanding;
            self.read_all(socket)?;
            let left = deadline.map_or(LONGEST_PAUSE, |end| end.saturating_duration_since(Instant::now()));
            if self.counts.outstanding == 0 || left.is_zero() {
                return Ok(self.counts.outstanding == 0);
            }
            // A connection that is gone is always ready; then the queue is checked at intervals.
            let is_ready = before == self.counts.outstanding && is_ready(socket)?;
            let pause = left.min(if is_ready { Duration::from_millis(1) } else { LONGEST_PAUSE });
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
            Err(error) => return Err(errno_of(&error)),
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
        if returned.copied {
            self.counts.copied_by_kernel += back;
            self.copied_in_a_row += back;
        } else if back > 0 {
            self.copied_in_a_row = 0;
        }
        if back > 0 {
            self.is_lending = !returned.copied;
            if let Some(route) = &self.route {
                route.returned(returned.copied);
            }
        }
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
    sent.as_ref().is_err_and(|error| errno_of(error) == Errno::NOBUFS)
}

fn is_ready(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut sockets = [PollFd::new(&socket, PollFlags::empty())];
    Ok(poll(&mut sockets, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

#[cfg(test)]
mod tests;
