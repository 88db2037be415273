//! A stream: inputs, what happens on the way, outputs; and one turn of moving what can be moved.
//!
//! A stream waits for nobody. It is told what became [ready](Stream::note_ready), is asked to [act](Stream::act), and says what it waits
//! for. Who tells and asks is an engine: [`Stream::run`] on the caller's thread, or [`Engine::start_stream`](crate::Engine::start_stream).

mod attach;
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
pub(crate) use finish::LOOK_AGAIN_US;
pub use status::{EndedOutput, InputStatus, OutputStatus, StreamStatus};
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
use finish::Delivery;
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
    /// How much has moved when the turn is over.
    turn_end: u64,
    /// The output that sends first, those that leave counted behind the others.
    next_to_send: usize,
    /// Handlers and outputs were told that nothing more comes.
    is_finishing: bool,
    /// Outputs that are gone.
    ended: VecDeque<EndedOutput>,
    /// What is to be dropped where that may take its time: closing a file, for one.
    remains: Vec<Remains>,
}

/// Something that is only to be dropped.
pub(crate) type Remains = Box<dyn Send>;

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
    /// Nothing more is taken of it, whatever it has.
    has_failed: bool,
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
    /// It takes only what is copied.
    copies: bool,
    /// May take something: no call has said otherwise since.
    writable: bool,
    /// Waits for storage.
    busy: bool,
    /// Bytes that are being written elsewhere, or could not be.
    storing: usize,
    /// Did not keep up.
    is_disconnected: bool,
    /// Got the beginning of a record and not yet its end.
    within: bool,
    detach: Option<OnDetached>,
    /// How far it is with what it took, once nothing more comes.
    delivery: Option<Delivery>,
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
    /// Nothing to do until peers have acknowledged what they were sent. An output's descriptor becomes ready when all of it is; but
    /// one that acknowledges nothing must be looked at again.
    Deliver,
    /// It is over.
    Ended(Result<(), StreamError>),
}

impl Stream {
    /// Moves about `allowance` bytes, in and out counted alike; answers what came of it and how many it was.
    pub(crate) fn act(&mut self, allowance: u64, now_us: u64) -> (Acted, u64) {
        let before = self.charged;
        self.turn_end = before.saturating_add(allowance);
        let acted = catch_unwind(AssertUnwindSafe(|| self.take_turn(now_us)));
        let acted = match acted {
            Ok(Ok(acted)) => acted,
            Ok(Err(error)) => Acted::Ended(Err(error)),
            Err(panic) => Acted::Ended(Err(StreamError::panicked(panic.as_ref()))),
        };
        self.charged = self.moved();
        if matches!(acted, Acted::Ended(_)) {
            self.give_back();
        }
        (acted, self.charged - before)
    }

    fn take_turn(&mut self, now_us: u64) -> Result<Acted, StreamError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            if self.is_finishing {
                return self.finish(now_us);
            }
            let mut progressed = self.send(now_us)?;
            if !self.is_turn_over() {
                progressed |= self.take_in(now_us)?;
            }
            if self.is_over() {
                return self.finish(now_us);
            }
            if self.is_turn_over() {
                return Ok(Acted::More);
            }
            if !progressed {
                return Ok(Acted::Wait);
            }
        }
    }

    /// Takes from inputs what outputs have room for; answers whether anything was done.
    fn take_in(&mut self, now_us: u64) -> Result<bool, StreamError> {
        if self.can_move_unseen() {
            return self.move_unseen(now_us);
        }
        if self.outputs.iter().any(|output| output.held() > 0) {
            return Ok(false); // what is in pipes leaves first
        }
        Ok(self.place(now_us)? | self.pull()?)
    }

    /// Bytes that were read and that outputs took.
    fn moved(&self) -> u64 {
        self.counts.bytes_in + self.counts.bytes_out
    }

    /// Whether the turn has moved what it may.
    fn is_turn_over(&self) -> bool {
        self.moved() >= self.turn_end
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

    /// Lets outputs take what waits for them, until the turn is over; in the next, those that were left out are first.
    fn send(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let mut progressed = false;
        for _ in 0..=self.outputs.len() + self.leaving.len() {
            let place = self.next_to_send;
            let Some(output) = nth_mut(&mut self.outputs, &mut self.leaving, place) else {
                self.next_to_send = 0;
                continue;
            };
            let sent = match output.held() {
                0 => output.send(&mut self.storage, now_us),
                _ => output.drain_pipe(&mut self.storage, now_us),
            };
            match sent {
                Ok(taken) => {
                    self.counts.bytes_out += taken.unwrap_or(0) as u64;
                    progressed |= taken.is_some();
                    self.next_to_send += 1;
                }
                Err(error) => {
                    self.output_failed(place, error)?;
                    progressed = true;
                }
            }
            if self.is_turn_over() {
                break;
            }
        }
        self.let_leave();
        Ok(progressed)
    }

    /// Whether everything that came has left.
    fn is_over(&mut self) -> bool {
        let nothing_waits = match &self.order {
            Order::Tags { merge, .. } => merge.is_done(),
            Order::Shares(collector) => collector.is_empty(),
            Order::Turns(_) | Order::Arrival { .. } => true,
        };
        if !(self.inputs.is_empty() && nothing_waits && self.pending.is_empty()) {
            return false;
        }
        // The last part of a stripe may be shorter.
        self.outputs.iter_mut().for_each(|output| output.outbox.end_record());
        self.outputs.iter().chain(&self.leaving).all(Output::is_idle)
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
            Take::Incomplete => Ok(None),
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
