//! Runs that the kernel sends at their times.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::layout::{self, Departure};
use super::run::address;
use crate::checked;

/// When the packets of a run leave. What is late leaves at once, and is counted.
#[derive(Clone, Copy, Debug)]
pub struct Departures<'a> {
    raw: layout::Start,
    borrowed: PhantomData<&'a [Departure]>,
}

impl<'a> Departures<'a> {
    /// At a rate, in which headers and payload count.
    pub fn by_rate(bytes_per_second: u64) -> Departures<'static> {
        let raw = layout::Start { rate_bytes_per_second: bytes_per_second, ..layout::Start::default() };
        Departures { raw, borrowed: PhantomData }
    }

    /// By a table of times after the start.
    pub fn by_table(table: &'a [Departure]) -> Departures<'a> {
        let raw = layout::Start {
            departures: address(table.as_ptr()),
            departure_count: u32::try_from(table.len()).unwrap_or(u32::MAX),
            ..layout::Start::default()
        };
        Departures { raw, borrowed: PhantomData }
    }

    /// From this time on (CLOCK_MONOTONIC); without, from now on.
    pub fn from_ns(mut self, start_ns: u64) -> Departures<'a> {
        self.raw.start_ns = start_ns;
        self
    }

    pub(super) fn raw(self) -> layout::Start {
        layout::Start { size: size_of::<layout::Start>() as u32, ..self.raw }
    }
}

/// A run that the kernel sends. It ends by itself, by [`Started::stop`], or when this is dropped. Its
/// descriptor is readable when it has ended.
#[derive(Debug)]
pub struct Started {
    pub(super) run: OwnedFd,
}

/// Progress of a paced run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// State of the run.
    pub state: State,
    /// Counts, which the header explains.
    pub counts: layout::Status,
}

/// State of a paced run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It goes on.
    Going,
    /// It has ended by itself: all was sent, or an error says why not.
    Ended(Result<(), Errno>),
    /// It was stopped.
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

    /// Waits for its end.
    ///
    /// # Errors
    /// `EINTR` if a signal ended the waiting.
    pub fn wait(&self) -> io::Result<Status> {
        self.ask(layout::WAIT)
    }

    /// Ends it.
    pub fn stop(&self) -> io::Result<()> {
        // SAFETY: the request takes no structure.
        checked(unsafe { libc::ioctl(self.run.as_raw_fd(), layout::STOP as _, 0) } as isize).map(drop)
    }

    fn ask(&self, request: u32) -> io::Result<Status> {
        let size = size_of::<layout::Status>() as u32;
        let mut counts = layout::Status { size, ..layout::Status::default() };
        // SAFETY: the kernel writes as many bytes as `size` says, all of which are numbers.
        checked(unsafe { libc::ioctl(self.run.as_raw_fd(), request as _, &raw mut counts) } as isize)?;
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
