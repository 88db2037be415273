//! Storage jobs: files read ahead and written. An engine runs them on its pool.

use std::io;

use rustix::io::Errno;
use wirepath_datapath::Pipe;
use wirepath_engine::catch_panic;

use crate::object::{Batch, Cold, WriteTarget};
use crate::port::Port;

/// A job that may block, and the input or output that waits for it.
pub(crate) struct StorageJob {
    pub(crate) port: Port,
    pub(crate) job: Job,
}

pub(crate) enum Job {
    Warm(Cold),
    Write(Batch),
    Drain {
        pipe: Pipe,
        target: WriteTarget,
    },
    #[cfg(test)]
    Panic,
}

pub(crate) struct Stored {
    pub(crate) port: Port,
    /// Bytes that were written, also before an error; or the byte up to which a file is in memory.
    pub(crate) bytes: u64,
    pub(crate) result: Result<(), Failure>,
    pub(crate) pipe: Option<Pipe>,
}

pub(crate) enum Failure {
    Storage(Errno),
    /// A bug: the bytes written are unknown.
    Panic(String),
}

#[cfg(test)]
impl Stored {
    pub(crate) fn failed(port: Port, errno: Errno) -> Stored {
        Stored { port, bytes: 0, result: Err(Failure::Storage(errno)), pipe: None }
    }
}

impl StorageJob {
    /// Runs the job. Its stream waits for the result, so a panic is one as well.
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
