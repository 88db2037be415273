//! Jobs of a stream that may block: files read ahead and written. An engine runs them on its pool.

use std::io;

use rustix::io::Errno;
use wirepath_datapath::Pipe;
use wirepath_engine::catch_panic;

use crate::object::{Batch, Cold, Target};
use crate::port::Port;

/// A job that may block, and the input or output that waits for it.
pub(crate) struct StorageJob {
    pub(crate) port: Port,
    pub(crate) job: Job,
}

pub(crate) enum Job {
    Warm(Cold),
    Write(Batch),
    /// What is in a pipe.
    Drain {
        pipe: Pipe,
        target: Target,
    },
    #[cfg(test)]
    Panic,
}

/// The result of a [`StorageJob`].
pub(crate) struct Stored {
    pub(crate) port: Port,
    /// Bytes that were written, also if it failed then; or up to where a file is in memory.
    pub(crate) bytes: u64,
    pub(crate) result: Result<(), Failure>,
    pub(crate) pipe: Option<Pipe>,
}

/// Why a job failed.
pub(crate) enum Failure {
    Storage(Errno),
    /// With this message: a bug, of which nobody can tell how far it came.
    Panic(String),
}

#[cfg(test)]
impl Stored {
    /// Nothing came of it.
    pub(crate) fn failed(port: Port, errno: Errno) -> Stored {
        Stored { port, bytes: 0, result: Err(Failure::Storage(errno)), pipe: None }
    }
}

impl StorageJob {
    /// Does it. Its stream waits for the answer, so a panic is one as well.
    pub(crate) fn run(self) -> Stored {
        let StorageJob { port, job } = self;
        let (bytes, result, pipe) = match catch_panic(|| job.run()) {
            Ok((bytes, result, pipe)) => (bytes, result.map_err(Failure::storage), pipe),
            Err(message) => (0, Err(Failure::Panic(message)), None),
        };
        Stored { port, bytes, result, pipe }
    }
}

impl Job {
    /// What [`Stored`] says of it.
    fn run(self) -> (u64, io::Result<()>, Option<Pipe>) {
        match self {
            Job::Warm(cold) => {
                let (until, result) = cold.bring_in();
                (until, result, None)
            }
            Job::Write(batch) => {
                let (bytes, result) = batch.write();
                (bytes, result, None)
            }
            Job::Drain { mut pipe, target } => {
                let (bytes, result) = target.drain(&mut pipe);
                (bytes, result, Some(pipe))
            }
            #[cfg(test)]
            Job::Panic => panic!("on purpose"),
        }
    }
}

impl Failure {
    fn storage(error: io::Error) -> Failure {
        Failure::Storage(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}
