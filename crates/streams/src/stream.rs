//! A stream: inputs, what happens on the way, outputs; and one turn of moving what can be moved.
//!
//! A stream waits for nobody. It is told what became [ready](Stream::note_ready), is asked to [act](Stream::act), and says what it waits
//! for. Who tells and asks is an engine: [`Stream::run`] on the caller's thread, or [`Engine::start_stream`](crate::Engine::start_stream).

mod build;
mod direct;
mod error;
mod event;
mod finish;
mod input;
mod leave;
mod place;
mod pull;
mod run;
mod status;
mod storage;
pub(crate) mod watch;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::BytesMut;
use wirepath_datapath::Pipe;

pub use build::{OutputOptions, StreamBuilder};
pub use error::StreamError;
pub use event::{OnEvent, StreamEvent};
pub use status::{InputStatus, OutputStatus, StreamStatus};
pub(crate) use storage::Stored;

use crate::chain::Chain;
use crate::framing::Splitter;
use crate::merge::Merge;
use crate::object::{Object, ObjectError, Take};
use crate::order::Turns;
use crate::outbox::{Dropped, Outbox};
use crate::pattern::{Lately, Spread};
use crate::record::Run;
use crate::secret::Collector;
use storage::{Job, Storage};
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
    /// Whether an input has, or had, datagrams: then records that handlers refuse are dropped.
    takes_datagrams: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    bytes_in: u64,
    records_in: u64,
    bytes_out: u64,
    bytes_unseen: u64,
    bytes_dropped: u64,
    bytes_returned: u64,
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
    /// Datagrams that were dropped because they are not what they should be.
    malformed: Dropped,
    /// Why the first of them was, until that is told.
    misfit: Option<String>,
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
    /// Bytes that are being written elsewhere, or could not be.
    storing: usize,
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
}

impl Output {
    /// Whether nothing waits for it.
    fn is_idle(&self) -> bool {
        self.outbox.is_empty() && !self.busy && self.held() == 0
    }

    /// Bytes that wait for it.
    fn waiting(&self) -> usize {
        self.outbox.bytes() + self.held() + self.storing
    }

    /// Drops all that waits for it; answers what it did not get, now and before.
    fn give_up(&mut self) -> Dropped {
        let beyond = (self.held() + self.storing) as u64;
        self.outbox.drop_all();
        let Dropped { records, bytes } = self.outbox.dropped();
        Dropped { records, bytes: bytes + beyond }
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
                self.storing = batch.bytes();
                storage.push(Storage { port: self.port, job: Job::Write(batch) });
                Ok(Some(0))
            }
        }
    }
}

/// The output at `place`, those that leave counted behind the others.
fn nth_mut<'a>(outputs: &'a mut [Output], leaving: &'a mut [Output], place: usize) -> Option<&'a mut Output> {
    let staying = outputs.len();
    if place < staying { outputs.get_mut(place) } else { leaving.get_mut(place - staying) }
}

#[cfg(test)]
mod tests;
