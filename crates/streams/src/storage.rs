//! Storage jobs: reading files ahead and writing files. An engine runs the jobs on its pool.

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
    /// Bytes that were written, including those before an error; or the offset up to which a file is in
    /// memory.
    pub(crate) bytes: u64,
    pub(crate) result: Result<(), Failure>,
    pub(crate) pipe: Option<Pipe>,
}

pub(crate) enum Failure {
    Storage(Errno),
    /// A panic, which is a bug: the number of bytes written is unknown.
    Panic(String),
}

#[cfg(test)]
impl Stored {
    pub(crate) fn failed(port: Port, errno: Errno) -> Stored {
        Stored { port, bytes: 0, result: Err(Failure::Storage(errno)), pipe: None }
    }
}

impl StorageJob {
    /// Runs the job. A panic becomes a result, because the stream waits for one.
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
