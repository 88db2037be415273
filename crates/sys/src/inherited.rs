//! Sockets passed at the start of the process by systemd (sd_listen_fds(3)).

use std::env;
use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::{FdFlags, fcntl_setfd};

/// First passed descriptor (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// Maximum number of passed descriptors.
const MOST: i32 = 64;

/// True once the descriptors were taken, since each may have a single owner.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the descriptors given by `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`, with their names; empty if
/// the variables are not for this process, or the descriptors were already taken. Children do not inherit
/// them. Must be called before the process opens descriptors that it keeps.
///
/// # Errors
/// `InvalidInput` if a variable does not have systemd's format; `EBADF` if a descriptor is not open.
pub fn take() -> io::Result<Vec<(String, OwnedFd)>> {
    if env::var("LISTEN_PID").ok().and_then(|pid| pid.parse().ok()) != Some(std::process::id()) {
        return Ok(Vec::new());
    }
    let Ok(count) = env::var("LISTEN_FDS") else { return Ok(Vec::new()) };
    let count = count.parse().ok().filter(|count| (0..=MOST).contains(count));
    let count: i32 = count.ok_or_else(|| {
        io::Error::new(ErrorKind::InvalidInput, format!("LISTEN_FDS: expected a number from 0 to {MOST}"))
    })?;
    if TAKEN.swap(true, Relaxed) {
        return Ok(Vec::new());
    }
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    (FIRST..FIRST + count)
        .map(|descriptor| {
            // SAFETY: it is only asked for its flags; if it is not open, that fails.
            let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
            fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
            // SAFETY: it is open, the parent opened it for this process (LISTEN_PID), nothing in this process has owned
            // it since the process began, and it is taken once.
            let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
            Ok((names.next().unwrap_or_default().to_owned(), owned))
        })
        .collect()
}
