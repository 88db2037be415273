//! Runs that are paced by the kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::layout;
use crate::ioctl;

/// Run that the kernel sends. It ends by itself, by [`Started::stop`], or on drop. Its descriptor is readable
/// when it has ended.
#[derive(Debug)]
pub struct Started {
    pub(super) run: OwnedFd,
}

/// Progress of a paced run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// State of the run.
    pub state: State,
    /// Counts, documented in the header.
    pub counts: layout::Status,
}

/// State of a paced run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The run is in progress.
    Going,
    /// The run has ended by itself: everything was sent, or sending failed.
    Ended(Result<(), Errno>),
    /// The run was stopped.
    Stopped,
}

impl Started {
    pub(super) fn new(run: OwnedFd) -> Started {
        Started { run }
    }

    /// Progress.
    pub fn status(&self) -> io::Result<Status> {
        self.ask(layout::STATUS)
    }

    /// Waits for the end of the run.
    ///
    /// # Errors
    /// `EINTR` if a signal interrupted the wait.
    pub fn wait(&self) -> io::Result<Status> {
        self.ask(layout::WAIT)
    }

    /// Stops the run.
    pub fn stop(&self) -> io::Result<()> {
        // SAFETY: the request takes no structure.
        unsafe { ioctl(&self.run, layout::STOP, std::ptr::null_mut::<u8>()) }.map(drop)
    }

    fn ask(&self, request: u32) -> io::Result<Status> {
        let size = size_of::<layout::Status>() as u32;
        let mut counts = layout::Status { size, ..layout::Status::default() };
        // SAFETY: the kernel writes as many bytes as `size` says, all of which are numbers.
        unsafe { ioctl(&self.run, request, &raw mut counts)? };
        let state = match counts.state {
            layout::RUN_GOING => State::Going,
            layout::RUN_STOPPED => State::Stopped,
            _ if counts.error == 0 => State::Ended(Ok(())),
            _ => State::Ended(Err(Errno::from_raw_os_error(counts.error))),
        };
        Ok(Status { state, counts })
    }
}

impl AsFd for Started {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.run.as_fd()
    }
}
