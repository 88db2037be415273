//! Sends that lend any private memory of the process, which may be written or freed at any time.
//!
//! A [`Lender`] sends by an io_uring (SEND_ZC), so nothing of a loan is to be seen on the socket: no option, no
//! error queue, no readiness that its owner did not expect. Pages that are lent are guarded
//! ([`WriteGuard`]): a write to one gets a page of its own. Loans that are over are noticed by later
//! sends of the same lender.

mod rings;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;

use crate::errno_of;
use crate::write_guard::{Guarded, WriteGuard};

/// Most loans of a lender that are out at a time.
pub const MOST_LOANS: usize = 256;

/// Most ranges that one message lends.
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
    /// Bytes of them.
    pub lent_bytes: u64,
    /// Loans that are over.
    pub back: u64,
    /// Loans that the kernel turned into copies, of those that are over.
    pub copied_although_lent: u64,
    /// Sends that could not lend: other memory, or too much is out.
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

/// Closes the rings of all lenders, in a process that `fork` has just made: they are the parent's, which an open
/// descriptor would keep from ending them. A process that `exec` makes has none: they are close-on-exec.
///
/// # Safety
/// This process uses none of the lenders that it had as the parent: [`Lender::leave_to_parent`] takes them.
pub unsafe fn close_inherited() {
    // SAFETY: the caller has made sure that nobody uses them.
    unsafe { rings::close_all() };
}

/// Ranges of a send that is not over.
type Ranges = [Option<Guarded>; MOST_RANGES];

/// A lender, to be used by the thread that made it: on any other its sends answer `EEXIST`.
pub struct Lender {
    ring: IoUring,
    guard: &'static WriteGuard,
    loans: Box<[Option<Ranges>]>,
    free: Vec<u16>,
    copied_in_a_row: u64,
    /// True after a failed submission, whose entry may still be in the ring: the next one would send it.
    is_broken: bool,
}

impl Lender {
    /// A lender of this thread, with its ring.
    ///
    /// # Errors
    /// Those of [`WriteGuard::of_process`]; `ENOSYS`, `EPERM` where io_uring is not to be had, `EINVAL` before
    /// Linux 6.1.
    pub fn new() -> io::Result<Lender> {
        let guard = WriteGuard::of_process()?;
        // The ring's work is done in its own calls only, so no other call of this thread is interrupted by it.
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
            copied_in_a_row: 0,
            is_broken: false,
        })
    }

    /// Sends, lends the pages, and answers how many bytes the socket took, without waiting for room; `None` if
    /// these cannot be lent now, or not to this socket: then nothing was sent. `flags` are those of `send`.
    ///
    /// # Errors
    /// `EAGAIN` if the socket is full; else those of `send`. `EPIPE` comes without a signal.
    pub fn send(&mut self, socket: BorrowedFd<'_>, bytes: &[u8], flags: i32) -> Result<Option<usize>, Errno> {
        let length = bytes.len().min(u32::MAX as usize >> 1) as u32;
        let entry = opcode::SendZc::new(types::Fd(socket.as_raw_fd()), bytes.as_ptr(), length)
            .flags(flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
            .zc_flags(REPORT_USAGE)
            .build();
        // SAFETY: the memory can be read during the call, and the pages that the kernel holds on to are guarded.
        unsafe { self.lend(std::iter::once(bytes), entry) }
    }

    /// The same for a message.
    ///
    /// # Safety
    /// `message` and all that it points to can be read, as `sendmsg` needs it. Its vectors are the `ranges`,
    /// at most [`MOST_RANGES`].
    ///
    /// # Errors
    /// As [`Lender::send`].
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
        unsafe { self.lend(ranges, entry) }
    }

    /// Returns whether the kernel turned so many loans in a row into copies, and begins to count anew if so.
    pub fn take_copied(&mut self, in_a_row: u64) -> bool {
        let is_reached = self.copied_in_a_row >= in_a_row;
        if is_reached {
            self.copied_in_a_row = 0;
        }
        is_reached
    }

    /// Loans that are out, as of the last send or [`Lender::collect`].
    pub fn out(&self) -> usize {
        self.loans.len() - self.free.len()
    }

    /// Leaves a lender to the parent, in a process that `fork` has just made; [`close_inherited`] closes its ring.
    pub fn leave_to_parent(self) {
        // Its memory was not inherited.
        std::mem::forget(self);
    }

    /// Takes note of loans that are over.
    ///
    /// # Errors
    /// Those of `io_uring_enter`.
    pub fn collect(&mut self) -> io::Result<()> {
        // With nothing to submit the call does the ring's work, which `submit` alone would leave undone.
        // SAFETY: nothing is submitted, and no argument is given.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, ENTER_GETEVENTS, None) }?;
        self.read_answers();
        Ok(())
    }

    /// # Safety
    /// What `entry` points to can be read during the call.
    unsafe fn lend<'a>(
        &mut self,
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
            self.loans[usize::from(place)] = Some(guarded);
        } else {
            self.free.push(place);
            self.end(guarded);
        }
        // A loan that was over at once has answered twice.
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

    /// Takes a free place. None if the ring is broken: it would send what it failed to, which may be freed by now.
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

    /// Submits a send that does not wait; returns its result, and whether a second answer follows. An error
    /// means that the ring is broken.
    ///
    /// # Safety
    /// What `entry` points to can be read during the call.
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

    /// Ends loans that are over; returns the first answer of a send, if there is one.
    fn read_answers(&mut self) -> Option<(i32, bool)> {
        let mut first = None;
        while let Some(answer) = self.next_answer() {
            if cqueue::notif(answer.flags()) {
                self.take_back(answer.user_data() as usize, answer.result() as u32 & USAGE_COPIED != 0);
            } else {
                first = Some((answer.result(), cqueue::more(answer.flags())));
                break; // its second answer is for after it was noted
            }
        }
        first
    }

    fn next_answer(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    fn take_back(&mut self, place: usize, is_copied: bool) {
        let Some(ranges) = self.loans.get_mut(place).and_then(Option::take) else { return };
        self.end(ranges);
        self.free.push(place as u16);
        BACK.fetch_add(1, Relaxed);
        if is_copied {
            COPIED.fetch_add(1, Relaxed);
            self.copied_in_a_row += 1;
        } else {
            self.copied_in_a_row = 0;
        }
    }
}

/// The descriptor of its ring.
impl AsFd for Lender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring has it open.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

/// `IORING_ENTER_GETEVENTS`.
const ENTER_GETEVENTS: u32 = 1;

impl Drop for Lender {
    /// Nobody will know when the loans that are out are over, so their pages are replaced by copies.
    fn drop(&mut self) {
        rings::forget(self.ring.as_raw_fd());
        let _looked = self.collect();
        for ranges in self.loans.iter_mut().filter_map(Option::take) {
            ranges.into_iter().flatten().for_each(|range| self.guard.abandon(range));
        }
    }
}

fn refuse() -> Option<usize> {
    REFUSED.fetch_add(1, Relaxed);
    None
}

/// Errors of sends that a copy may have more success with: sockets that do not lend, memory that may not be
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
