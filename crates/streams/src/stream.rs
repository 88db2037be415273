//! A stream: its four parts, and one turn of moving bytes.
//!
//! A record goes from the [intake](crate::intake), which reads inputs in an order, through the
//! [chain](crate::chain) of handlers and the [spread](crate::spread), which chooses outputs by a pattern, to
//! the [outputs](crate::outputs). Bytes may take the [zero-copy route](crate::zero_copy) from inputs to
//! outputs if no handler sees them, or if the only handler peeks at them.
//!
//! A stream never blocks. An engine tells the stream which ports are [ready](Stream::note_ready), gives it
//! turns ([`Stream::act`]), and waits for what their results name: [`Stream::run`] on the caller's thread, or
//! an engine thread after [`Stream::start`].

mod attach;
mod build;
mod change;
mod connections;
mod detach;
mod finish;
mod handlers;
mod listening;
mod options;
mod run;
mod status;
mod turn;

use std::io;

use bytes::BytesMut;
use wirepath_engine::{Watcher, catch_panic};

pub use attach::TooLate;
pub use build::StreamBuilder;
pub use handlers::HandlerChangeError;
use listening::Listening;
pub(crate) use options::Pace;
pub use options::{OptionError, StreamOption};
pub use status::StreamStatus;

use crate::chain::Chain;
use crate::error::StreamError;
use crate::events::{EventSlot, StreamEvents};
use crate::intake::Intake;
use crate::object::Object;
use crate::outputs::Outputs;
use crate::port::Port;
use crate::record::Run;
use crate::shared::{DeferredDrop, READING, Shared};
use crate::spread::Spread;
use crate::storage::{Failure, StorageJob, Stored};
use crate::zero_copy::StreamParts;

/// A stream of records from inputs through handlers to outputs.
pub struct Stream {
    intake: Intake,
    chain: Chain,
    spread: Spread,
    outputs: Outputs,
    shared: Shared,
    /// Listening inputs and outputs.
    listening: Listening,
    /// Inputs have, or had, records that are datagrams as received; datagram outputs then do not join
    /// records.
    keeps_datagrams: bool,
    /// Inputs have, or had, datagrams; records that handlers refuse are then dropped.
    takes_datagrams: bool,
    next_port: u64,
    next_handler: u64,
    /// Changes of handlers may be deferred to the end of a record.
    has_changes: bool,
    /// Connection that has failed, if a failed connection is to end the stream.
    broken: Option<Port>,
    /// Handlers and outputs were told about the end.
    is_finishing: bool,
    processor_ns: Option<u64>,
    pub(crate) pace: Pace,
    /// Runs made by the handlers from a run; empty otherwise.
    made: Vec<Run>,
}

/// Result of a turn.
#[derive(Debug)]
pub(crate) enum Acted {
    More,
    /// Nothing to do until a port becomes ready.
    Wait,
    /// Nothing to do until peers have acknowledged the bytes sent to them. An output's descriptor becomes
    /// ready when its peer has acknowledged everything; stalls are sampled.
    Deliver,
    Ended(Result<(), StreamError>),
}

impl Stream {
    fn parts(&mut self) -> StreamParts<'_> {
        let Stream { intake, chain, spread, outputs, shared, .. } = self;
        StreamParts { intake, chain, spread, outputs, shared }
    }

    /// Passes a run from the intake through the handlers to the spread. Nothing after a record at which a
    /// handler failed is passed.
    fn handle(
        chain: &mut Chain,
        spread: &mut Spread,
        made: &mut Vec<Run>,
        run: Run<BytesMut>,
        shared: &mut Shared,
    ) {
        if chain.is_empty() {
            return spread.pending.push_back(run.map(BytesMut::freeze));
        }
        if let Err(error) = chain.handle(run, made) {
            shared.fail(error.into());
        }
        spread.pending.extend(made.drain(..));
        shared.tell_refusal(chain.take_refusal());
    }

    /// Hands on the bytes that a handler has peeked at and that have not left. Must be called before a change
    /// after which handlers would see these bytes again, or never.
    fn settle_seen(&mut self) {
        if let Some(run) = self.intake.take_seen(&mut self.shared) {
            self.spread.pending.push_back(run.map(BytesMut::freeze));
        }
    }

    /// Descriptor that is readable when the stream has an event to report or has ended, for an event loop of
    /// the caller. The events are those from now on.
    ///
    /// # Errors
    /// Failure of `eventfd`.
    pub fn events(&self) -> io::Result<StreamEvents> {
        self.shared.events.open()
    }

    pub(crate) fn event_slot(&self) -> &EventSlot {
        &self.shared.events
    }

    fn next_port(&mut self) -> Port {
        let port = Port(self.next_port);
        self.next_port += 1;
        port
    }

    fn object(&self, port: Port) -> Option<&Object> {
        let inputs = self.intake.inputs.iter().map(|input| (input.port, &input.object));
        let outputs = self.outputs.all().map(|output| (output.port, &output.object));
        inputs.chain(outputs).find(|(of_object, _)| *of_object == port).map(|(_, object)| object)
    }

    /// Marks an input as readable, or an output as writable. Harmless if the port is not.
    pub(crate) fn note_ready(&mut self, port: Port) {
        if !self.intake.note_ready(port) && !self.listening.note_ready(port) {
            self.outputs.note_ready(port, &self.shared);
        }
    }

    pub(crate) fn note_urgent(&mut self, port: Port) {
        self.intake.note_urgent(port);
    }

    /// Bytes that were read, and bytes that outputs have taken.
    pub(crate) fn moved_bytes(&self) -> (u64, u64) {
        (self.intake.counts.bytes, self.outputs.taken_bytes)
    }

    pub(crate) fn note_processor_ns(&mut self, used_ns: u64) {
        self.processor_ns = Some(self.processor_ns.unwrap_or(0) + used_ns);
    }

    pub(crate) fn take_deferred_drops(&mut self) -> Vec<DeferredDrop> {
        std::mem::take(&mut self.shared.deferred_drops)
    }

    /// Takes jobs that may block. Their results go to [`Stream::stored`].
    pub(crate) fn take_storage(&mut self) -> impl Iterator<Item = StorageJob> {
        self.shared.storage.drain(..)
    }

    /// Handles the result of a storage job. Returns the error that ends the stream: that of the job, or an
    /// earlier one.
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

    pub(crate) fn waits_for_storage(&self) -> bool {
        self.intake.waits_for_storage() || self.is_writing()
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.outputs.all().any(|output| output.busy)
    }

    /// Sets the watcher of the engine that runs the stream.
    pub(crate) fn set_watcher(&mut self, watcher: Watcher) {
        self.shared.watcher = Some(watcher);
    }

    /// Watches all descriptors, including those attached later, if that has not begun. Adding a descriptor reports what
    /// it is ready for, so no event is missed.
    pub(crate) fn watch(&mut self) -> Result<(), StreamError> {
        // Set first: descriptors that were added before an error are removed at the end of the stream.
        if std::mem::replace(&mut self.shared.is_watching, true) {
            return Ok(());
        }
        let inputs = self.intake.inputs.iter().map(|input| (input.port, &input.object));
        for (port, object) in inputs.chain(self.listening.objects()) {
            self.shared.watch(port, object, READING)?;
        }
        Ok(self.outputs.watch(&self.shared)?)
    }

    /// Stops watching. The next engine or caller does not learn of earlier events, so every port is tried.
    pub(crate) fn unwatch(&mut self) {
        self.unwatch_all();
        (self.shared.watcher, self.shared.is_watching) = (None, false);
        self.intake.note_all_ready();
        self.listening.note_all_ready();
        self.outputs.forget_readiness();
    }

    /// Closes connections, so that their peers see the end now. Closing other objects may block.
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
        self.shared.events.end(); // also for a stream that never ran
        // A duplicated descriptor would stay in epoll after the object is closed here.
        self.unwatch_all();
    }
}

#[cfg(test)]
mod tests;
