//! Sends that lend private memory of the process, which may be written or freed at any time.
//!
//! A [`Lender`] sends by an io_uring (SEND_ZC), so that loans have no visible effect on the socket: no
//! option, no error queue, no readiness that its owner did not expect. Lent pages are guarded
//! ([`WriteGuard`]): a write to a lent page gets a new page. The end of a loan is processed by later sends of
//! the same lender.

mod rings;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;

use crate::errno_of;
use crate::ring;
use crate::write_guard::{Guarded, WriteGuard};

/// Maximum number of outstanding loans of a lender.
pub const MOST_LOANS: usize = 256;

/// Maximum number of ranges lent by one message.
pub const MOST_RANGES: usize = 8;

/// `IORING_SEND_ZC_REPORT_USAGE` and `IORING_NOTIF_USAGE_ZC_COPIED` of `linux/io_uring.h`.
const REPORT_USAGE: u16 = 1 << 3;
/// As above.
const USAGE_COPIED: u32 = 1 << 31;

/// Counts of all lenders of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LenderCounts {
    /// Sends that lent their pages.
    pub lent: u64,
    /// Bytes of these sends.
    pub lent_bytes: u64,
    /// Loans that have ended.
    pub back: u64,
    /// Ended loans that the kernel turned into copies.
    pub copied_although_lent: u64,
    /// Sends that could not lend: unsuitable memory, or too many outstanding loans.
    pub refused: u64,
}

static LENT: AtomicU64 = AtomicU64::new(0);
static LENT_BYTES: AtomicU64 = AtomicU64::new(0);
static BACK: AtomicU64 = AtomicU64::new(0);
static COPIED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Counts of all lenders of this process.
pub fn counts() -> LenderCounts {
    LenderCounts {
        lent: LENT.load(Relaxed),
        lent_bytes: LENT_BYTES.load(Relaxed),
        back: BACK.load(Relaxed),
        copied_although_lent: COPIED.load(Relaxed),
        refused: REFUSED.load(Relaxed),
    }
}

/// Closes the rings of all lenders, in a process that `fork` has just created: the rings belong to the
/// parent, and would not end while descriptors are open. A process after `exec` has none, since they are
/// close-on-exec.
///
/// # Safety
/// This process uses none of the lenders that it had as the parent: [`Lender::leave_to_parent`] takes them.
pub unsafe fn close_inherited() {
    // SAFETY: the caller has made sure that nobody uses them.
    unsafe { rings::close_all() };
}

/// Ranges of a send that has not ended.
type Ranges = [Option<Guarded>; MOST_RANGES];

/// A send that has not ended.
struct Loan {
    descriptor: RawFd,
    ranges: Ranges,
}

/// A loan that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedLoan {
    /// Descriptor of its socket at the time of the send.
    pub descriptor: RawFd,
    /// True if the kernel turned it into a copy.
    pub is_copied: bool,
}

/// Lender for the thread that created it: on other threads its sends fail with `EEXIST`.
pub struct Lender {
    ring: IoUring,
    guard: &'static WriteGuard,
    loans: Box<[Option<Loan>]>,
    free: Vec<u16>,
    /// Ended loans that were not [taken](Lender::take_ended) yet. Never longer than its capacity.
    ended: Vec<EndedLoan>,
    /// True after a failed submission, whose entry may still be in the ring: the next submission would send
    /// it.
    is_broken: bool,
}

impl Lender {
    /// Creates a lender of this thread, with its ring.
    ///
    /// # Errors
    /// Errors of [`WriteGuard::of_process`]; `ENOSYS` or `EPERM` if io_uring is not available, `EINVAL`
    /// before Linux 6.1.
    pub fn new() -> io::Result<Lender> {
        let guard = WriteGuard::of_process()?;
        // The ring's work is done in its own calls only, so that it does not interrupt other calls of this
        // thread.
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_cqsize(2 * MOST_LOANS as u32);
        builder.dontfork();
        let ring = builder.build(4)?;
        rings::note(ring.as_raw_fd());
        Ok(Lender {
            ring,
            guard,
            loans: (0..MOST_LOANS).map(|_| None).collect(),
            free: (0..MOST_LOANS as u16).rev().collect(),
            ended: Vec::with_capacity(MOST_LOANS),
            is_broken: false,
        })
    }

    /// Sends and lends the pages; returns the number of bytes sent, without waiting for room. Returns `None`,
    /// and sends nothing, if these pages cannot be lent now, or not to this socket. `flags` are those of
    /// `send`.
    ///
    /// # Errors
    /// `EAGAIN` if the socket is full; else errors of `send`. `EPIPE` comes without a signal.
    pub fn send(&mut self, socket: BorrowedFd<'_>, bytes: &[u8], flags: i32) -> Result<Option<usize>, Errno> {
        let length = bytes.len().min(u32::MAX as usize >> 1) as u32;
        let entry = opcode::SendZc::new(types::Fd(socket.as_raw_fd()), bytes.as_ptr(), length)
            .flags(flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
            .zc_flags(REPORT_USAGE)
            .build();
        // SAFETY: the memory can be read during the call, and the pages that the kernel holds on to are guarded.
        unsafe { self.lend(socket, std::iter::once(bytes), entry) }
    }

    /// Like [`Lender::send`], for a message.
    ///
    /// # Safety
    /// `message` and all that it points to can be read, as `sendmsg` needs it. Its vectors are the `ranges`,
    /// at most [`MOST_RANGES`].
    ///
    /// # Errors
    /// See [`Lender::send`].
    pub unsafe fn send_message<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        message: *const libc::msghdr,
        ranges: impl Iterator<Item = &'a [u8]>,
        flags: i32,
    ) -> Result<Option<usize>, Errno> {
        let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let entry = opcode::SendMsgZc::new(types::Fd(socket.as_raw_fd()), message)
            .flags(flags as u32)
            .ioprio(REPORT_USAGE)
            .build();
        // SAFETY: the caller has made sure of it.
        unsafe { self.lend(socket, ranges, entry) }
    }

    /// Takes the loans that have ended since the last call, in order; some are missing if there were many.
    pub fn take_ended(&mut self) -> impl Iterator<Item = EndedLoan> {
        self.ended.drain(..)
    }

    /// Outstanding loans, as of the last send or [`Lender::collect`].
    pub fn out(&self) -> usize {
        self.loans.len() - self.free.len()
    }

    /// Leaves a lender to the parent, in a process that `fork` has just created; [`close_inherited`] closes
    /// its ring.
    pub fn leave_to_parent(self) {
        // The ring's memory was not inherited.
        std::mem::forget(self);
    }

    /// Processes ended loans.
    ///
    /// # Errors
    /// Errors of `io_uring_enter`.
    pub fn collect(&mut self) -> io::Result<()> {
        loop {
            let before = self.out();
            // Without entries to submit the call performs the ring's deferred work, which `submit` alone would
            // not do; since Linux 6.13, 20 completions of it.
            // SAFETY: nothing is submitted, and no argument is given.
            unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, ENTER_GETEVENTS, None) }?;
            self.read_answers();
            if before - self.out() < ring::COMPLETIONS_PER_CALL {
                return Ok(());
            }
        }
    }

    /// # Safety
    /// The memory that `entry` points to can be read during the call.
    unsafe fn lend<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        ranges: impl Iterator<Item = &'a [u8]>,
        entry: squeue::Entry,
    ) -> Result<Option<usize>, Errno> {
        let Some(place) = self.room() else { return Ok(refuse()) };
        let before = self.guard.replacements();
        let Some(guarded) = self.enter(ranges) else {
            self.free.push(place);
            return Ok(refuse());
        };
        // SAFETY: the caller has made sure of it.
        let answer = unsafe { self.submit(entry.user_data(place.into())) };
        for range in guarded.iter().flatten() {
            self.guard.confirm(range, before);
        }
        self.is_broken = answer.is_err();
        let (result, is_out) = answer.unwrap_or((-Errno::IO.raw_os_error(), true));
        if is_out {
            self.loans[usize::from(place)] = Some(Loan { descriptor: socket.as_raw_fd(), ranges: guarded });
        } else {
            self.free.push(place);
            self.end(guarded);
        }
        // A loan that ended immediately has already sent its notification.
        self.read_answers();
        match usize::try_from(result) {
            Ok(taken) => {
                LENT.fetch_add(1, Relaxed);
                LENT_BYTES.fetch_add(taken as u64, Relaxed);
                Ok(Some(taken))
            }
            Err(_) if cannot_lend(-result) => Ok(refuse()),
            Err(_) => Err(Errno::from_raw_os_error(-result)),
        }
    }

    /// Takes a free slot. `None` if the ring is broken: it would execute the failed submission, whose memory
    /// may be freed by now.
    fn room(&mut self) -> Option<u16> {
        if self.is_broken {
            return None;
        }
        if self.free.is_empty() {
            self.collect().ok()?;
        }
        self.free.pop()
    }

    /// Guards all ranges, or none.
    fn enter<'a>(&self, ranges: impl Iterator<Item = &'a [u8]>) -> Option<Ranges> {
        let mut guarded = Ranges::default();
        let mut places = guarded.iter_mut();
        for range in ranges.filter(|range| !range.is_empty()) {
            let entered = places.next().and_then(|place| Some((place, self.guard.enter(range).ok()?)));
            let Some((place, range)) = entered else {
                self.end(guarded);
                return None;
            };
            *place = Some(range);
        }
        Some(guarded)
    }

    fn end(&self, ranges: Ranges) {
        ranges.into_iter().flatten().for_each(|range| self.guard.over(range));
    }

    /// Submits a send that does not wait; returns its result, and whether a notification follows. An error
    /// means that the ring is broken.
    ///
    /// # Safety
    /// The memory that `entry` points to can be read during the call.
    unsafe fn submit(&mut self, entry: squeue::Entry) -> io::Result<(i32, bool)> {
        // SAFETY: the caller has made sure of it.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| Errno::BUSY)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if errno_of(&error) != Errno::INTR => return Err(error),
                _ => {}
            }
            if let Some(result) = self.read_answers() {
                return Ok(result);
            }
        }
    }

    /// Ends loans whose notifications have arrived; returns the first completion of a send, if there is one.
    fn read_answers(&mut self) -> Option<(i32, bool)> {
        let mut first = None;
        while let Some(answer) = self.next_answer() {
            if cqueue::notif(answer.flags()) {
                self.take_back(answer.user_data() as usize, answer.result() as u32 & USAGE_COPIED != 0);
            } else {
                first = Some((answer.result(), cqueue::more(answer.flags())));
                break; // its notification is processed after the loan is recorded
            }
        }
        first
    }

    fn next_answer(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    fn take_back(&mut self, place: usize, is_copied: bool) {
        let Some(loan) = self.loans.get_mut(place).and_then(Option::take) else { return };
        self.end(loan.ranges);
        self.free.push(place as u16);
        BACK.fetch_add(1, Relaxed);
        if is_copied {
            COPIED.fetch_add(1, Relaxed);
        }
        if self.ended.len() < self.ended.capacity() {
            self.ended.push(EndedLoan { descriptor: loan.descriptor, is_copied });
        }
    }
}

/// Descriptor of the ring.
impl AsFd for Lender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring has it open.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

/// `IORING_ENTER_GETEVENTS`.
const ENTER_GETEVENTS: u32 = 1;

impl Drop for Lender {
    /// The end of outstanding loans will not be known, so their pages are replaced by copies.
    fn drop(&mut self) {
        rings::forget(self.ring.as_raw_fd());
        let _looked = self.collect();
        for loan in self.loans.iter_mut().filter_map(Option::take) {
            loan.ranges.into_iter().flatten().for_each(|range| self.guard.abandon(range));
        }
    }
}

fn refuse() -> Option<usize> {
    REFUSED.fetch_add(1, Relaxed);
    None
}

/// Errors of sends for which a copy may succeed: sockets that do not support lending, memory that may not be
/// locked, more pages than a datagram can refer to.
fn cannot_lend(errno: i32) -> bool {
    matches!(
        errno,
        libc::EOPNOTSUPP
            | libc::EINVAL
            | libc::ENOMEM
            | libc::ENOBUFS
            | libc::ENOTSOCK
            | libc::EFAULT
            | libc::EMSGSIZE
            | libc::EEXIST
            | libc::EIO
    )
}
