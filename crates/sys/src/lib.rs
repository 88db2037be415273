//! System calls that no library offers safely or without allocation: the only crate with `unsafe`.
//!
//! Typed request in, typed result out. What `rustix` and `socket2` already offer safely is used from there
//! and not wrapped again.

pub mod append;
pub mod cpu;
pub mod datagrams;
pub mod device;
pub mod gather;
pub mod header_blocks;
pub mod mapping;
pub mod module;
pub mod namespace;
pub mod page_cache;
pub mod pages;
pub mod region;
pub mod ring;
mod send;
pub mod socket;
pub mod usage;
pub mod zerocopy;

use std::io;

/// The result of a call that answers -1 on failure.
fn checked(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
