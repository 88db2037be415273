//! Sends that lend, with the results of sends that copy.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

use libc::{iovec, msghdr, sockaddr, socklen_t, ssize_t};
use rustix::fs::OFlags;
use rustix::io::Errno;
use wirepath_sys::lender::{self, Lender, MOST_RANGES};
use wirepath_sys::write_guard::WriteGuard;

use crate::rule::{self, Kind};

/// Vectors of a message that lends.
pub(crate) const MOST_VECTORS: usize = MOST_RANGES;

/// Bytes that are lent at a time: a socket takes no more anyway, and guarding costs by the page.
const MOST_LENT: usize = 1 << 20;

/// Bytes that are copied into a full socket of a program that waits: when they are in, there is room again.
const PIECE: usize = 4096;

/// Number of loans between two checks of write faults, and the most faults in it that still justify lending.
const LOANS: u64 = 32;
const MOST_FAULTS: u64 = 4;

/// The lender of a thread.
struct Own {
    lender: Lender,
    loans: u64,
    faults: u64,
}

thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

thread_local! {
    /// This thread forks, and has the guard's pages to itself.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

pub(crate) extern "C" fn before_fork() {
    // A thread that is ending has no such value, and does not fork.
    let _is_ending = FORKS.try_with(|forks| forks.set(WriteGuard::before_fork()));
}

pub(crate) extern "C" fn after_fork_in_parent() {
    if FORKS.try_with(Cell::get).unwrap_or(false) {
        WriteGuard::after_fork();
    }
}

/// Leaves the lenders of all threads to the parent, in a process that `fork` has just made; it has no other thread.
pub(crate) extern "C" fn after_fork_in_child() {
    // Without it the thread is ending, and its lender with it.
    let _is_ending = OWN.try_with(|own| {
        if let Some(old) = own.try_borrow_mut().ok().and_then(|mut own| own.take()) {
            old.lender.leave_to_parent();
        }
    });
    // SAFETY: a new process has this thread only, which has left its lender.
    unsafe {
        lender::close_inherited();
        WriteGuard::leave_to_parent();
    }
}

enum Outcome {
    Lent(usize),
    /// It has to be copied.
    Copy,
    Failed(Errno),
}

/// Lends by this thread's lender. A signal handler that interrupts it copies.
fn lend(
    descriptor: c_int,
    send: impl FnOnce(&mut Lender, BorrowedFd<'_>) -> Result<Option<usize>, Errno>,
) -> Outcome {
    let lent = OWN.try_with(|own| {
        let mut own = own.try_borrow_mut().ok()?;
        let own = renew(&mut own)?;
        // SAFETY: the program has it open during its call.
        let result = send(&mut own.lender, unsafe { BorrowedFd::borrow_raw(descriptor) });
        own.judge(descriptor, result == Ok(None));
        Some(result)
    });
    match lent {
        Ok(Some(Ok(Some(taken)))) => Outcome::Lent(taken),
        Ok(Some(Err(errno))) => Outcome::Failed(errno),
        Ok(Some(Ok(None)) | None) | Err(_) => Outcome::Copy,
    }
}

/// A lender of this process; none if there can be none.
fn renew(own: &mut Option<Own>) -> Option<&mut Own> {
    if own.is_none() {
        let lender = Lender::new().ok()?;
        let faults = WriteGuard::started().map_or(0, WriteGuard::write_faults);
        *own = Some(Own { lender, loans: 0, faults });
    }
    own.as_mut()
}

impl Own {
    /// Has later sends copied where nothing can be lent, or the kernel copies anyway, or pages are written while
    /// they are out, which costs more than copying them at once.
    fn judge(&mut self, descriptor: c_int, is_refused: bool) {
        if is_refused {
            rule::note(descriptor, true);
        }
        for ended in self.lender.take_ended() {
            rule::note(ended.descriptor, ended.is_copied);
        }
        self.loans += 1;
        if self.loans.is_multiple_of(LOANS) {
            let faults = WriteGuard::started().map_or(0, WriteGuard::write_faults);
            if faults - self.faults > MOST_FAULTS {
                rule::copy_next(descriptor);
            }
            self.faults = faults;
        }
    }
}

/// Sends bytes as `send` does; `copy` is `send`.
///
/// # Safety
/// The bytes can be read.
pub(crate) unsafe fn send(
    descriptor: c_int,
    start: *const c_void,
    length: usize,
    flags: c_int,
    copy: impl Fn(*const c_void, usize) -> ssize_t,
) -> ssize_t {
    let Some((kind, waits)) = socket(descriptor, flags) else { return copy(start, length) };
    // SAFETY: the caller has made sure of it.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    let mut sent = 0;
    while sent < length {
        let rest = &bytes[sent..];
        let copy_first = |length: usize| {
            let copied = copy(rest.as_ptr().cast(), length);
            // Where less is taken a signal or a timeout has ended the call, as it has to end this one.
            (copied, usize::try_from(copied).is_ok_and(|copied| copied == length))
        };
        let wanted = if kind == Kind::Stream { rest.len().min(MOST_LENT) } else { rest.len() };
        let (more, goes_on) = match lend_from(descriptor, &rest[..wanted], flags) {
            Outcome::Lent(taken) => (taken as ssize_t, waits || taken == wanted),
            // The C library's call waits, with its timeout, and can be interrupted.
            Outcome::Failed(Errno::AGAIN) if waits && kind == Kind::Stream => copy_first(wanted.min(PIECE)),
            Outcome::Failed(Errno::AGAIN) if waits => copy_first(rest.len()),
            // Its call raises the signal.
            Outcome::Failed(Errno::PIPE) if sent == 0 => copy_first(rest.len()),
            Outcome::Failed(errno) => (fail(errno), false),
            Outcome::Copy => copy_first(rest.len()),
        };
        if more < 0 {
            return if sent > 0 { sent as ssize_t } else { more };
        }
        sent += more as usize;
        if !goes_on {
            break;
        }
    }
    sent as ssize_t
}

fn lend_from(descriptor: c_int, bytes: &[u8], flags: c_int) -> Outcome {
    if bytes.len() < rule::least() {
        return Outcome::Copy;
    }
    lend(descriptor, |lender, socket| lender.send(socket, bytes, flags))
}

/// Sends a message as `sendmsg` does; `copy` is `sendmsg`, and gets the rest of it.
///
/// # Safety
/// The message, and all that it points to, can be read.
pub(crate) unsafe fn send_message(
    descriptor: c_int,
    message: *const msghdr,
    flags: c_int,
    copy: impl Fn(*const msghdr) -> ssize_t,
) -> ssize_t {
    // SAFETY: the caller has made sure of it.
    let header = unsafe { &*message };
    let Some((kind, waits)) = socket(descriptor, flags) else { return copy(message) };
    if header.msg_iovlen > MOST_VECTORS || header.msg_controllen > 0 {
        return copy(message);
    }
    // SAFETY: as above.
    let vectors = unsafe { std::slice::from_raw_parts(header.msg_iov, header.msg_iovlen) };
    // SAFETY: as above.
    let ranges = vectors.iter().map(|vector| unsafe {
        match vector.iov_len {
            0 => &[][..], // whose address may be anything
            length => std::slice::from_raw_parts(vector.iov_base.cast::<u8>(), length),
        }
    });
    // SAFETY: as above.
    let outcome =
        lend(descriptor, |lender, socket| unsafe { lender.send_message(socket, message, ranges, flags) });
    match outcome {
        Outcome::Lent(taken) if waits && kind == Kind::Stream => {
            let mut rest = Message::of(vectors);
            if !rest.skip(taken) {
                return taken as ssize_t;
            }
            taken as ssize_t + copy(rest.header()).max(0)
        }
        Outcome::Lent(taken) => taken as ssize_t,
        Outcome::Failed(Errno::AGAIN) if waits => copy(message),
        Outcome::Failed(Errno::PIPE) | Outcome::Copy => copy(message),
        Outcome::Failed(errno) => fail(errno),
    }
}

/// Kind of a socket that may lend, and whether this send waits for room.
fn socket(descriptor: c_int, flags: c_int) -> Option<(Kind, bool)> {
    // SAFETY: the program has it open during its call; if not, the calls below answer `EBADF`.
    let socket = unsafe { BorrowedFd::borrow_raw(descriptor.max(0)) };
    let Some(kind) = rule::kind(socket) else {
        rule::copy_next(descriptor);
        return None;
    };
    let status = rustix::fs::fcntl_getfl(socket).ok()?;
    Some((kind, flags & libc::MSG_DONTWAIT == 0 && !status.contains(OFlags::NONBLOCK)))
}

fn fail(errno: Errno) -> ssize_t {
    // SAFETY: the place of this thread's error.
    unsafe { *libc::__errno_location() = errno.raw_os_error() };
    -1
}

/// Bytes of a message; 0 if it has more vectors than are lent.
///
/// # Safety
/// The message and its vectors can be read.
pub(crate) unsafe fn length(message: *const msghdr) -> usize {
    // SAFETY: the caller has made sure of it.
    let Some(header) = (unsafe { message.as_ref() }) else { return 0 };
    if header.msg_iov.is_null() || !(1..=MOST_VECTORS).contains(&header.msg_iovlen) {
        return 0;
    }
    // SAFETY: as above.
    let vectors = unsafe { std::slice::from_raw_parts(header.msg_iov, header.msg_iovlen) };
    sum(vectors)
}

fn sum(vectors: &[iovec]) -> usize {
    vectors.iter().fold(0, |sum, vector| sum.saturating_add(vector.iov_len))
}

/// A message with vectors of its own. Not in the heap: signal handlers write, too.
pub(crate) struct Message {
    header: msghdr,
    vectors: [iovec; MOST_VECTORS],
}

impl Message {
    /// Of at most [`MOST_VECTORS`].
    pub(crate) fn of(vectors: &[iovec]) -> Message {
        let mut own = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST_VECTORS];
        own[..vectors.len()].copy_from_slice(vectors);
        // SAFETY: all zeros are a message without anything.
        let mut header: msghdr = unsafe { std::mem::zeroed() };
        header.msg_iovlen = vectors.len();
        Message { header, vectors: own }
    }

    pub(crate) fn name(&mut self, address: *const sockaddr, length: socklen_t) {
        self.header.msg_name = address.cast_mut().cast();
        self.header.msg_namelen = length;
    }

    /// The header; good until the message is moved or changed.
    pub(crate) fn header(&mut self) -> *const msghdr {
        self.header.msg_iov = self.vectors.as_mut_ptr();
        &raw const self.header
    }

    /// Bytes of it.
    pub(crate) fn length(&self) -> usize {
        sum(&self.vectors)
    }

    /// Leaves out the first bytes; false if nothing is left.
    fn skip(&mut self, mut bytes: usize) -> bool {
        let mut is_left = false;
        for vector in self.vectors.iter_mut() {
            let skipped = bytes.min(vector.iov_len);
            vector.iov_base = vector.iov_base.wrapping_byte_add(skipped);
            vector.iov_len -= skipped;
            bytes -= skipped;
            is_left |= vector.iov_len > 0;
        }
        is_left
    }
}
