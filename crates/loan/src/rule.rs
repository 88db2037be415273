//! The rule: sends of some size, to sockets that the kernel does not copy for anyway, and memory that is not
//! written while it is out.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};

use rustix::net::{AddressFamily, SocketType, sockopt};

/// Sends of at least so many bytes lend: a guard costs less than a copy of bytes that are in a cache. No
/// datagram has so many; a guarded loan of one was not measured to be cheaper (docs/paths/loan.md).
const USUAL_LEAST: usize = 256 * 1024;

/// Loans of a descriptor in a row that the kernel turned into copies, or refused, after which its sends are copied.
const IN_A_ROW: u8 = 16;

/// Copies before a descriptor is tried again that could not lend: it may be another by then.
const COPIES: u32 = 1024;

/// Descriptors that have a count of their own; others share.
const DESCRIPTORS: usize = 4096;

static LEAST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Copies that are still to be made for each descriptor.
static TO_COPY: [AtomicU32; DESCRIPTORS] = [const { AtomicU32::new(0) }; DESCRIPTORS];

/// Loans in a row of each descriptor that were in vain.
static IN_VAIN: [AtomicU8; DESCRIPTORS] = [const { AtomicU8::new(0) }; DESCRIPTORS];

/// Sets the least number of bytes; without one the usual.
pub(crate) fn set_least(bytes: Option<usize>) {
    LEAST.store(bytes.unwrap_or(USUAL_LEAST).max(1), Relaxed);
}

pub(crate) fn least() -> usize {
    LEAST.load(Relaxed)
}

/// Returns whether a send may lend, by what costs nothing to know.
pub(crate) fn may_lend(descriptor: RawFd, length: usize, flags: c_int) -> bool {
    const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;
    descriptor >= 0 && length >= least() && flags & !FLAGS == 0 && !is_to_copy(descriptor)
}

fn is_to_copy(descriptor: RawFd) -> bool {
    let left = count(descriptor);
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// Notes what became of a loan of a descriptor: it was in vain if the kernel copied or refused it. Some in a row have
/// the next sends copied. Each descriptor is judged by its own loans, since one may lead to this machine, for which
/// the kernel copies, and another to a network card.
pub(crate) fn note(descriptor: RawFd, is_in_vain: bool) {
    let in_vain = &IN_VAIN[descriptor as usize % DESCRIPTORS];
    if !is_in_vain {
        in_vain.store(0, Relaxed);
    } else if in_vain.fetch_add(1, Relaxed) + 1 >= IN_A_ROW {
        in_vain.store(0, Relaxed);
        copy_next(descriptor);
    }
}

/// Has the next sends to this descriptor copied.
pub(crate) fn copy_next(descriptor: RawFd) {
    count(descriptor).store(COPIES, Relaxed);
}

fn count(descriptor: RawFd) -> &'static AtomicU32 {
    &TO_COPY[descriptor as usize % DESCRIPTORS]
}

/// Kind of a socket that may lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A send may take some of its bytes.
    Stream,
    /// A send takes all or none.
    Datagram,
}

/// The kind of an Internet socket; none for another descriptor.
pub(crate) fn kind(socket: std::os::fd::BorrowedFd<'_>) -> Option<Kind> {
    let family = sockopt::socket_domain(socket).ok()?;
    if family != AddressFamily::INET && family != AddressFamily::INET6 {
        return None;
    }
    match sockopt::socket_type(socket).ok()? {
        SocketType::STREAM => Some(Kind::Stream),
        SocketType::DGRAM => Some(Kind::Datagram),
        _ => None,
    }
}
