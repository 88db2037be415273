//! What a stream needs done that may block: files read ahead and written. An engine has others do it.

use std::io;

use rustix::io::Errno;
use wirepath_datapath::Pipe;

use super::{Port, Stream, StreamError, nth_mut};
use crate::object::{Batch, Cold, Target};
use wirepath_engine::catch_panic;
use wirepath_engine::now_us;

/// Something that may block, and for whom.
pub(crate) struct Storage {
    pub(crate) port: Port,
    pub(super) job: Job,
}

pub(super) enum Job {
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

/// What came of something that might have blocked.
pub(crate) struct Stored {
    port: Port,
    /// Bytes that were written, also if it failed then; or up to where a file is in memory.
    bytes: u64,
    result: Result<(), Failure>,
    pipe: Option<Pipe>,
}

enum Failure {
    Storage(Errno),
    /// With these words: a mistake of ours, of which nobody can tell how far it came.
    Panic(String),
}

#[cfg(test)]
impl Stored {
    /// Nothing came of it.
    pub(crate) fn failed(port: Port, errno: Errno) -> Stored {
        Stored { port, bytes: 0, result: Err(Failure::Storage(errno)), pipe: None }
    }
}

impl Storage {
    /// Does it. Its stream waits for the answer, so a panic is one as well.
    pub(crate) fn run(self) -> Stored {
        let Storage { port, job } = self;
        let (bytes, result, pipe) = match catch_panic(|| job.run()) {
            Ok((bytes, result, pipe)) => (bytes, result.map_err(Failure::storage), pipe),
            Err(words) => (0, Err(Failure::Panic(words)), None),
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

impl Stream {
    /// What an engine has to do that may block. It says with [`Stream::stored`] what came of each.
    pub(crate) fn take_storage(&mut self) -> impl Iterator<Item = Storage> {
        self.storage.drain(..)
    }

    /// What came of something that might have blocked.
    ///
    /// # Errors
    /// What ends the stream: that it failed, or what had failed before.
    pub(crate) fn stored(&mut self, stored: Stored) -> Result<(), StreamError> {
        // Whoever is told of it is others' code.
        let noted = catch_panic(|| self.note_stored(stored));
        let noted = noted.unwrap_or_else(|words| Err(StreamError::Panicked(words)));
        noted.map_err(|error| self.first_cause(error))
    }

    fn note_stored(&mut self, stored: Stored) -> Result<(), StreamError> {
        let Stored { port, bytes, result, pipe } = stored;
        let result = match result {
            Ok(()) => Ok(()),
            Err(Failure::Storage(errno)) => Err(errno),
            Err(Failure::Panic(words)) => {
                let mut outputs = self.outputs.iter_mut().chain(&mut self.leaving);
                outputs.find(|output| output.port == port).into_iter().for_each(|output| output.busy = false);
                let object = self.object(port).map(|object| object.name.clone());
                return object.map_or(Ok(()), |name| Err(StreamError::StoragePanicked { name, words }));
            }
        };
        if let Some(place) = self.place_of_input(port) {
            self.wake_input(place);
            let input = &mut self.inputs[place];
            input.busy = false;
            let Err(errno) = result else {
                input.object.warmed(bytes);
                return Ok(());
            };
            let error = input.object.error("reading ahead", errno);
            self.input_failed(place, error.into());
            return Ok(());
        }
        let place = self.outputs.iter().chain(&self.leaving).position(|output| output.port == port);
        let Some(place) = place else { return Ok(()) };
        let Some(output) = nth_mut(&mut self.outputs, &mut self.leaving, place) else { return Ok(()) };
        output.busy = false;
        output.storing -= bytes as usize;
        output.object.note_written(bytes as usize);
        output.note_taken(bytes as usize, now_us());
        self.counts.bytes_out += bytes;
        match result {
            Ok(()) => {
                if let Some(pipe) = pipe {
                    output.pipe = Some(pipe); // it had none while another thread had this one
                }
                Ok(())
            }
            Err(errno) => {
                let error = output.object.error("writing", errno);
                self.output_failed(place, error)
            }
        }
    }
}
