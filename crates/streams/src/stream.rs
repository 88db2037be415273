//! A stream: inputs, what happens on the way, outputs; and one turn of moving what can be moved.
//!
//! A stream waits for nobody. It is told what became [ready](Stream::note_ready), is asked to [act](Stream::act), and says what it waits
//! for. Who tells and asks is an engine: [`Stream::run`] on the caller's thread, or [`Engine::start_stream`](crate::Engine::start_stream).

mod build;
mod direct;
mod event;
mod place;
mod pull;
mod run;
mod status;
pub(crate) mod watch;

use std::any::Any;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::BytesMut;
use rustix::io::Errno;
use wirepath_datapath::Pipe;

pub use build::{OutputOptions, StreamBuilder};
pub use event::{OnEvent, StreamEvent};
pub use status::{InputStatus, OutputStatus, StreamStatus};

use crate::blocking::warm;
use crate::chain::{Chain, ChainError};
use crate::clock::now_us;
use crate::framing::{FramingError, Splitter};
use crate::handler::HandlerError;
use crate::merge::Merge;
use crate::object::{Batch, Object, ObjectError, Take};
use crate::order::Turns;
use crate::outbox::Outbox;
use crate::pattern::{Lately, Spread};
use crate::record::Run;
use crate::secret::{Collector, ShareError};
use watch::Watch;

/// An input or output of a stream, unique within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub(crate) u64);

/// Data on its way from inputs through handlers to outputs.
pub struct Stream {
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// Outputs that get nothing more and still have something to send.
    leaving: Vec<Output>,
    order: Order,
    spread: Spread,
    chain: Chain,
    /// Handled, and waiting for room.
    pending: VecDeque<Run>,
    /// The rest of a record goes nowhere: whoever had its beginning is gone.
    skipping: bool,
    /// What handlers make; empty between turns.
    made: Vec<Run>,
    /// What an engine has to do that may block.
    storage: Vec<Storage>,
    settings: Settings,
    next_port: u64,
    counts: Counts,
    /// Bytes that turns were charged for: what others wrote between two turns goes to the next.
    charged: u64,
    on_event: Option<Box<OnEvent>>,
    /// Where an engine waits for the descriptors.
    watch: Option<Watch>,
    /// What went wrong between two turns.
    failed: Option<StreamError>,
}

/// What holds for all inputs and outputs.
#[derive(Clone, Copy, Debug)]
struct Settings {
    /// Most bytes of a record, if handlers, order or outputs need whole ones.
    whole: Option<usize>,
    /// Tells outputs that nothing more comes when the stream has ended well.
    finish_outputs: bool,
    /// Whether the stream goes on without an output that fails.
    survives_outputs: bool,
    /// Whether it goes on without an input that fails.
    survives_inputs: bool,
    /// Whether bytes that nobody looks at need not be copied: false where an object cannot do that.
    moves_unseen: bool,
    /// Bytes of datagrams for outputs that are such.
    packet_bytes: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    bytes_in: u64,
    records_in: u64,
    bytes_out: u64,
    bytes_unseen: u64,
}

struct Input {
    port: Port,
    object: Object,
    splitter: Splitter,
    buffer: BytesMut,
    /// Divided, and not yet taken.
    ready: VecDeque<Run>,
    /// May have something: no call has said otherwise since.
    readable: bool,
    /// Waits for storage.
    busy: bool,
    at_end: bool,
    /// To be detached when it is between two records.
    detach: Option<OnDetached>,
    bytes: u64,
    records: u64,
}

struct Output {
    port: Port,
    object: Object,
    chain: Chain,
    outbox: Outbox,
    /// What goes to it without being looked at.
    pipe: Option<Pipe>,
    /// May take something: no call has said otherwise since.
    writable: bool,
    /// Waits for storage.
    busy: bool,
    /// Got the beginning of a record and not yet its end.
    within: bool,
    detach: Option<OnDetached>,
    lately: Lately,
    bytes: u64,
    lost_bytes: u64,
}

/// Gets an object back.
type OnDetached = Box<dyn FnOnce(Object) + Send>;

/// How inputs are put in order.
enum Order {
    Turns(Turns),
    /// Whose turn it is to be asked first, and the input of which a record goes by.
    Arrival {
        first: usize,
        within: Option<Port>,
    },
    Tags {
        tag: Box<Tag>,
        merge: Merge<Run>,
    },
    Shares(Collector),
}

/// Finds the tag of a record.
pub type Tag = dyn FnMut(&[u8]) -> Option<u64> + Send;

/// Why a stream ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// An input or output failed.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An input has no records where they should be.
    #[error("{name}: {error}")]
    Framing {
        /// The input.
        name: String,
        /// What is wrong.
        error: FramingError,
    },
    /// An input's shares cannot be put together.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// There are fewer outputs than shares are needed to give a record back.
    #[error("{outputs} outputs are fewer than the threshold of {threshold} shares")]
    TooFewOutputs {
        /// How many there are.
        outputs: usize,
        /// How many it takes.
        threshold: u8,
    },
    /// A handler gave up.
    #[error("handler {handler}: {error}")]
    Handler {
        /// Its name.
        handler: String,
        /// Why.
        error: HandlerError,
    },
    /// A handler, a framing or a tag panicked.
    #[error("a callback of the stream panicked: {0}")]
    Panicked(String),
    /// There is no output left.
    #[error("no output is left; the last one: {0}")]
    NoOutput(String),
    /// It was stopped.
    #[error("the stream was stopped")]
    Stopped,
}

/// What came of a turn.
#[derive(Debug)]
pub(crate) enum Acted {
    /// There is more to do at once.
    More,
    /// Nothing to do until something becomes ready.
    Wait,
    /// It is over.
    Ended(Result<(), StreamError>),
}

/// Something that may block, and for whom.
pub(crate) struct Storage {
    pub(crate) port: Port,
    job: Job,
}

enum Job {
    Warm(Arc<File>, Range<u64>),
    Write(Batch),
    /// What is in a pipe to a file, at this offset.
    Drain {
        pipe: Pipe,
        file: Arc<File>,
        offset: u64,
    },
}

/// What came of something that might have blocked.
pub(crate) struct Stored {
    port: Port,
    result: io::Result<u64>,
    pipe: Option<Pipe>,
}

impl Storage {
    /// Does it.
    pub(crate) fn run(self) -> Stored {
        let port = self.port;
        match self.job {
            Job::Warm(file, range) => {
                let result = warm(&file, range.clone()).map(|()| range.end);
                Stored { port, result, pipe: None }
            }
            Job::Write(batch) => Stored { port, result: batch.write(), pipe: None },
            Job::Drain { mut pipe, file, offset } => {
                let result = drain(&mut pipe, &file, offset);
                Stored { port, result, pipe: Some(pipe) }
            }
        }
    }
}

/// Writes all that is in a pipe; answers how many bytes that is.
fn drain(pipe: &mut Pipe, file: &File, mut offset: u64) -> io::Result<u64> {
    let bytes = pipe.held() as u64;
    while pipe.held() > 0 {
        pipe.drain(file, Some(&mut offset), false)?;
    }
    Ok(bytes)
}

impl Stream {
    /// Moves about `allowance` bytes, in and out counted alike; answers what came of it and how many it was.
    pub(crate) fn act(&mut self, allowance: u64, now_us: u64) -> (Acted, u64) {
        let moved = |counts: &Counts| counts.bytes_in + counts.bytes_out;
        let before = self.charged;
        let acted = catch_unwind(AssertUnwindSafe(|| {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            loop {
                let mut progressed = self.send(now_us)?;
                progressed |= if self.can_move_unseen() {
                    self.move_unseen(now_us)?
                } else if self.outputs.iter().any(|output| output.held() > 0) {
                    false // what is in pipes leaves first
                } else if self.will_move_unseen() {
                    self.place()? // what was read before leaves first, and no more is read
                } else {
                    self.place()? | self.pull()?
                };
                if self.is_over() {
                    return self.finish().map(|()| Acted::Ended(Ok(())));
                }
                if !progressed {
                    return Ok(Acted::Wait);
                }
                if moved(&self.counts) - before >= allowance {
                    return Ok(Acted::More);
                }
            }
        }));
        let acted = match acted {
            Ok(Ok(acted)) => acted,
            Ok(Err(error)) => Acted::Ended(Err(error)),
            Err(panic) => Acted::Ended(Err(StreamError::panicked(panic.as_ref()))),
        };
        self.charged = moved(&self.counts);
        (acted, self.charged - before)
    }

    /// What an engine has to do that may block. It says with [`Stream::stored`] what came of each.
    pub(crate) fn take_storage(&mut self) -> impl Iterator<Item = Storage> {
        self.storage.drain(..)
    }

    /// What came of something that might have blocked.
    ///
    /// # Errors
    /// If it failed, which ends the stream.
    pub(crate) fn stored(&mut self, stored: Stored) -> Result<(), StreamError> {
        let Stored { port, result, pipe } = stored;
        let result = result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        if let Some(input) = self.inputs.iter_mut().find(|input| input.port == port) {
            input.busy = false;
            let until = result.map_err(|errno| input.object.error("reading ahead", errno))?;
            input.object.warmed(until);
        }
        let place = self.outputs.iter().chain(&self.leaving).position(|output| output.port == port);
        let Some(place) = place else { return Ok(()) };
        let Some(output) = nth_mut(&mut self.outputs, &mut self.leaving, place) else { return Ok(()) };
        output.busy = false;
        match result {
            Ok(written) => {
                if let Some(pipe) = pipe {
                    output.pipe = Some(pipe); // it had none while another thread had this one
                }
                output.note_taken(written as usize, now_us());
                self.counts.bytes_out += written;
                Ok(())
            }
            Err(errno) => {
                let error = output.object.error("writing", errno);
                self.output_failed(place, error)
            }
        }
    }

    /// An input may have something now, or an output room. Saying so of what has not is harmless.
    pub(crate) fn note_ready(&mut self, port: Port) {
        if let Some(input) = self.inputs.iter_mut().find(|input| input.port == port) {
            input.readable = true;
        }
        if let Some(output) =
            self.outputs.iter_mut().chain(&mut self.leaving).find(|output| output.port == port)
        {
            output.writable = true;
        }
    }

    /// Lets outputs take what waits for them.
    fn send(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let mut progressed = false;
        let mut place = 0;
        while let Some(output) = nth_mut(&mut self.outputs, &mut self.leaving, place) {
            let sent = match output.held() {
                0 => output.send(&mut self.storage, now_us),
                _ => output.drain_pipe(&mut self.storage, now_us),
            };
            match sent {
                Ok(taken) => {
                    self.counts.bytes_out += taken.unwrap_or(0) as u64;
                    progressed |= taken.is_some();
                    place += 1;
                }
                Err(error) => {
                    self.output_failed(place, error)?;
                    progressed = true;
                }
            }
        }
        self.let_leave();
        Ok(progressed)
    }

    /// An output failed: the stream goes on without it or ends.
    fn output_failed(&mut self, place: usize, error: ObjectError) -> Result<(), StreamError> {
        if !self.settings.survives_outputs {
            return Err(error.into());
        }
        let is_leaving = place >= self.outputs.len();
        let output = if is_leaving {
            self.leaving.remove(place - self.outputs.len())
        } else {
            self.outputs.remove(place)
        };
        Stream::release(self.watch.as_ref(), &output.object);
        self.tell(StreamEvent::OutputFailed { port: output.port, error: error.to_string() });
        if is_leaving {
            return Ok(());
        }
        self.forget_output(place, output.within);
        if self.outputs.is_empty() { Err(StreamError::NoOutput(error.to_string())) } else { Ok(()) }
    }

    /// Gives back outputs that have sent what they had.
    fn let_leave(&mut self) {
        while let Some(place) = self.leaving.iter().position(Output::is_idle) {
            let output = self.leaving.remove(place);
            Stream::release(self.watch.as_ref(), &output.object);
            self.tell(StreamEvent::OutputGone { port: output.port, name: output.object.name.clone() });
            if let Some(on_detached) = output.detach {
                on_detached(output.object);
            }
        }
    }

    /// Whether everything that came has left.
    fn is_over(&self) -> bool {
        let nothing_waits = match &self.order {
            Order::Tags { merge, .. } => merge.is_done(),
            Order::Shares(collector) => collector.is_empty(),
            Order::Turns(_) | Order::Arrival { .. } => true,
        };
        let are_idle = self.outputs.iter().chain(&self.leaving).all(Output::is_idle);
        self.inputs.is_empty() && nothing_waits && self.pending.is_empty() && are_idle
    }

    /// Tells handlers and outputs that nothing more will come.
    fn finish(&mut self) -> Result<(), StreamError> {
        self.chain.end()?;
        for output in &mut self.outputs {
            output.chain.end()?;
        }
        if !self.settings.finish_outputs {
            return Ok(());
        }
        for place in 0..self.outputs.len() {
            let output = &self.outputs[place];
            match output.object.finish() {
                Err(error) if self.settings.survives_outputs => {
                    let port = output.port;
                    self.tell(StreamEvent::OutputFailed { port, error: error.to_string() });
                }
                finished => finished?,
            }
        }
        Ok(())
    }
}

impl Output {
    /// Whether nothing waits for it.
    fn is_idle(&self) -> bool {
        self.outbox.is_empty() && !self.busy && self.held() == 0
    }

    /// Takes of what waits; answers how many bytes, or None if nothing could be done.
    fn send(&mut self, storage: &mut Vec<Storage>, now_us: u64) -> Result<Option<usize>, ObjectError> {
        if self.outbox.is_empty() || !self.writable || self.busy {
            return Ok(None);
        }
        match self.object.take(&mut self.outbox)? {
            Take::Taken(bytes) => {
                self.note_taken(bytes, now_us);
                Ok(Some(bytes))
            }
            Take::Lost(bytes) => {
                self.lost_bytes += bytes as u64;
                Ok(Some(bytes))
            }
            Take::Full => {
                self.writable = false;
                Ok(None)
            }
            Take::Write(batch) => {
                self.busy = true;
                storage.push(Storage { port: self.port, job: Job::Write(batch) });
                Ok(Some(0))
            }
        }
    }
}

impl From<ChainError> for StreamError {
    fn from(error: ChainError) -> StreamError {
        StreamError::Handler { handler: error.handler.to_owned(), error: error.error }
    }
}

/// The output at `place`, those that leave counted behind the others.
fn nth_mut<'a>(outputs: &'a mut [Output], leaving: &'a mut [Output], place: usize) -> Option<&'a mut Output> {
    let staying = outputs.len();
    if place < staying { outputs.get_mut(place) } else { leaving.get_mut(place - staying) }
}

impl StreamError {
    /// For what a panic left.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> StreamError {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        StreamError::Panicked(text.unwrap_or_else(|| "without words".to_owned()))
    }
}

#[cfg(test)]
mod tests;
