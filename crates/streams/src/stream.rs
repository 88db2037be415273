//! A stream: its four parts, and one turn of moving what can be moved.
//!
//! A record goes from the [intake](crate::intake), its inputs in an order, through the [chain](crate::chain)
//! of handlers and the
//! [spread](crate::spread), which gives it to outputs by a pattern, to the [outputs](crate::outputs). Bytes
//! that nobody looks at take the [zero-copy route](crate::zero_copy) from inputs to outputs.
//!
//! A stream waits for nobody. It is told what became [ready](Stream::note_ready), is asked to
//! [act](Stream::act), and says what it waits for. What tells and asks is an engine: [`Stream::run`] on the
//! caller's thread, or [`Stream::start`].

mod attach;
mod build;
mod change;
mod connections;
mod detach;
mod finish;
mod listening;
mod run;
mod status;
mod turn;

use wirepath_engine::{Watcher, catch_panic};

pub use attach::TooLate;
pub use build::StreamBuilder;
use listening::Listening;
pub use status::StreamStatus;

use crate::chain::Chain;
use crate::error::StreamError;
use crate::intake::Intake;
use crate::object::Object;
use crate::outputs::Outputs;
use crate::port::Port;
use crate::record::Run;
use crate::shared::{DeferredDrop, READING, Shared};
use crate::spread::Spread;
use crate::storage::{Failure, StorageJob, Stored};
use crate::zero_copy::Parts;

/// Data on its way from inputs through handlers to outputs.
pub struct Stream {
    intake: Intake,
    chain: Chain,
    spread: Spread,
    outputs: Outputs,
    shared: Shared,
    /// Inputs and outputs that connections are awaited for.
    listening: Listening,
    /// Whether inputs have, or had, records that are datagrams as they came, which outputs of datagrams do
    /// not join.
    keeps_datagrams: bool,
    /// Whether inputs have, or had, datagrams: then records that handlers refuse are dropped.
    takes_datagrams: bool,
    next_port: u64,
    /// A connection that has failed, if that is to end the stream.
    broken: Option<Port>,
    /// Handlers and outputs were told that nothing more comes.
    is_finishing: bool,
    processor_ns: Option<u64>,
    /// What handlers make of a run; empty otherwise.
    made: Vec<Run>,
}

/// The result of a turn.
#[derive(Debug)]
pub(crate) enum Acted {
    /// There is more to do at once.
    More,
    /// Nothing to do until something becomes ready.
    Wait,
    /// Nothing to do until peers have acknowledged what they were sent. An output's descriptor becomes ready
    /// when its peer has acknowledged all; a peer that acknowledges nothing has to be looked at again.
    Deliver,
    /// The stream is over.
    Ended(Result<(), StreamError>),
}

impl Stream {
    /// The parts that the zero-copy route joins.
    fn parts(&mut self) -> Parts<'_> {
        let Stream { intake, chain, spread, outputs, shared, .. } = self;
        Parts { intake, chain, spread, outputs, shared }
    }

    /// Hands a run on from the intake: handlers see it, and what they make waits for room. Nothing goes
    /// behind a record at which a handler failed.
    fn handle(chain: &mut Chain, spread: &mut Spread, made: &mut Vec<Run>, run: Run, shared: &mut Shared) {
        if chain.is_empty() {
            return spread.pending.push_back(run);
        }
        if let Err(error) = chain.handle(run, made) {
            shared.fail(error.into());
        }
        spread.pending.extend(made.drain(..));
        shared.tell_refusal(chain.take_refusal());
    }

    fn next_port(&mut self) -> Port {
        let port = Port(self.next_port);
        self.next_port += 1;
        port
    }

    /// The object of an input or output.
    fn object(&self, port: Port) -> Option<&Object> {
        let inputs = self.intake.inputs.iter().map(|input| (input.port, &input.object));
        let outputs = self.outputs.all().map(|output| (output.port, &output.object));
        inputs.chain(outputs).find(|(of_object, _)| *of_object == port).map(|(_, object)| object)
    }

    /// An input may have something now, or an output room. Saying so of what has not is harmless.
    pub(crate) fn note_ready(&mut self, port: Port) {
        if !self.intake.note_ready(port) && !self.listening.note_ready(port) {
            self.outputs.note_ready(port, &self.shared);
        }
    }

    /// The connection of an input has urgent data.
    pub(crate) fn note_urgent(&mut self, port: Port) {
        self.intake.note_urgent(port);
    }

    /// Bytes that were read, and bytes that outputs took.
    pub(crate) fn moved_bytes(&self) -> (u64, u64) {
        (self.intake.counts().bytes, self.outputs.taken_bytes())
    }

    /// A turn was measured, and took so much of a processor.
    pub(crate) fn note_processor_ns(&mut self, used_ns: u64) {
        self.processor_ns = Some(self.processor_ns.unwrap_or(0) + used_ns);
    }

    /// What is to be dropped where that may take long.
    pub(crate) fn take_deferred_drops(&mut self) -> Vec<DeferredDrop> {
        std::mem::take(&mut self.shared.deferred_drops)
    }

    /// Jobs that may block. Whoever runs them says with [`Stream::stored`] what came of each.
    pub(crate) fn take_storage(&mut self) -> impl Iterator<Item = StorageJob> {
        self.shared.storage.drain(..)
    }

    /// A storage job is done.
    ///
    /// # Errors
    /// What ends the stream: that the job failed, or what had failed before.
    pub(crate) fn stored(&mut self, stored: Stored, now_us: u64) -> Result<(), StreamError> {
        // Callbacks may panic.
        let noted = catch_panic(|| self.note_stored(stored, now_us));
        let noted = noted.unwrap_or_else(|message| Err(StreamError::Panicked(message)));
        noted.map_err(|error| self.first_cause(error))
    }

    fn note_stored(&mut self, stored: Stored, now_us: u64) -> Result<(), StreamError> {
        let Stored { port, bytes, result, pipe } = stored;
        let result = match result {
            Ok(()) => Ok(()),
            Err(Failure::Storage(errno)) => Err(errno),
            Err(Failure::Panic(message)) => {
                self.outputs.note_panicked(port);
                let name = self.object(port).map(|object| object.name.clone());
                return name.map_or(Ok(()), |name| Err(StreamError::StoragePanicked { name, message }));
            }
        };
        match self.intake.place_of(port) {
            Some(place) => {
                self.intake.note_warm(place, bytes, result, &mut self.shared);
                Ok(())
            }
            None => self.outputs.note_stored(port, bytes, result, pipe, now_us, &mut self.shared),
        }
    }

    /// Returns whether a storage job of it runs.
    pub(crate) fn waits_for_storage(&self) -> bool {
        self.intake.waits_for_storage() || self.is_writing()
    }

    /// Returns whether a storage job of it writes.
    pub(crate) fn is_writing(&self) -> bool {
        self.outputs.are_writing()
    }

    /// Waits for all descriptors by `watcher`, also those that are attached later.
    pub(crate) fn watch(&mut self, watcher: Watcher) -> Result<(), StreamError> {
        // Kept first: what was added before one could not be is removed again when the stream ends.
        self.shared.watcher = Some(watcher);
        let inputs = self.intake.inputs.iter().map(|input| (input.port, &input.object));
        for (port, object) in inputs.chain(self.listening.objects()) {
            self.shared.watch(port, object, READING)?;
        }
        Ok(self.outputs.watch(&self.shared)?)
    }

    /// Waits by the watcher no more. Whoever waits next is not told what was ready before, so all is tried.
    pub(crate) fn unwatch(&mut self) {
        self.unwatch_all();
        self.shared.watcher = None;
        self.intake.note_all_ready();
        self.listening.note_all_ready();
        self.outputs.forget_readiness();
    }

    /// Closes connections, so that their peers see it now. The rest may take long to be closed.
    pub(crate) fn close_connections(&mut self) {
        self.unwatch();
        let inputs = self.intake.inputs.iter_mut().map(|input| &mut input.object);
        let outputs = self.outputs.all_mut().map(|output| &mut output.object);
        inputs.chain(outputs).for_each(Object::close_connection);
    }

    fn unwatch_all(&self) {
        let inputs = self.intake.inputs.iter().map(|input| &input.object);
        let outputs = self.outputs.all().map(|output| &output.object);
        let listening = self.listening.objects().map(|(_, object)| object);
        inputs.chain(outputs).chain(listening).for_each(|object| self.shared.unwatch(object));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.give_back();
        // A descriptor that was duplicated would stay in epoll after it is closed here.
        self.unwatch_all();
    }
}

#[cfg(test)]
mod tests;
