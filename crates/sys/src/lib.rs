//! System calls that no library offers safely or without allocation: the only crate with `unsafe`.
//!
//! Typed request in, typed result out. Calls that `rustix` and `socket2` offer safely are used from there and
//! not wrapped again.

pub mod append;
pub mod arrivals;
pub mod batches;
pub mod blocks;
mod bpf;
pub mod context_program;
mod control;
pub mod cpu;
pub mod datagrams;
pub mod departure;
pub mod device;
pub mod frames;
pub mod gather;
pub mod header_blocks;
pub mod heap;
pub mod inherited;
pub mod lender;
pub mod mapping;
mod memory;
pub mod module;
pub mod namespace;
pub mod page_cache;
pub mod pages;
pub mod qdisc;
pub mod region;
pub mod ring;
mod send;
pub mod socket;
pub mod struct_ops;
pub mod usage;
pub mod users;
pub mod write_guard;
pub mod zerocopy;

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Errno of an error; `EIO` if it has none.
pub fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Result of a call that returns -1 on failure.
fn checked(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// # Safety
/// `argument` has the type of the request, and the memory that it points to may be read and written as the
/// request does.
unsafe fn ioctl<T>(descriptor: impl AsFd, request: u32, argument: *mut T) -> io::Result<usize> {
    // SAFETY: the caller has made sure of it.
    checked(unsafe { libc::ioctl(descriptor.as_fd().as_raw_fd(), request as _, argument) } as isize)
}
