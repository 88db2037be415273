//! A stream: inputs, what happens on the way, outputs; and one turn of moving what can be moved.
//!
//! A stream waits for nobody. It is told what became [ready](Stream::note_ready), is asked to [act](Stream::act), and says what it waits
//! for. Who tells and asks is an engine: [`Stream::run`] on the caller's thread, or [`Engine::start_stream`](crate::Engine::start_stream).

mod admit;
mod arrival;
mod attach;
mod broken;
mod build;
mod change;
mod detach;
mod direct;
mod drain;
mod error;
mod event;
mod expected;
mod finish;
mod input;
mod leave;
mod leg;
mod output;
mod place;
mod pull;
mod run;
mod shares;
mod status;
mod storage;
mod turn;
pub(crate) mod watch;

use std::collections::VecDeque;

use bytes::BytesMut;
use wirepath_datapath::Pipe;
use wirepath_engine::{StallDetector, Watcher};

pub use attach::TooLate;
pub use build::{OutputOptions, StreamBuilder};
pub use error::StreamError;
pub use event::{OnEvent, StreamEvent};
pub use status::{EndedOutput, GoneOutputs, InputStatus, OutputStatus, StreamStatus};
pub(crate) use storage::Stored;

use crate::chain::Chain;
use crate::framing::Splitter;
use crate::merge::Merge;
use crate::object::Object;
use crate::order::Turns;
use crate::outbox::{Dropped, Outbox};
use crate::pattern::{Lately, Spread};
use crate::record::Run;
use crate::secret::Collector;
use arrival::Arrivals;
use expected::Expected;
use storage::{Job, Storage};

/// An input or output of a stream, unique within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub(crate) u64);

/// Data on its way from inputs through handlers to outputs.
pub struct Stream {
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// All inputs could be [moved unseen](leg), and nothing has happened to one since.
    inputs_unchanged: bool,
    /// The place of an input that could not.
    obstacle: usize,
    /// How many were looked at for that.
    #[cfg(test)]
    inputs_looked_at: usize,
    /// Inputs that are to be detached.
    detaching: usize,
    /// Outputs that get nothing more and still have something to send.
    leaving: Vec<Output>,
    order: Order,
    spread: Spread,
    chain: Chain,
    /// Handled, and waiting for room.
    pending: VecDeque<Run>,
    /// What was read last, and may be pending, is of a stream of bytes without framing, which may have ended since.
    is_endless_pending: bool,
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
    watcher: Option<Watcher>,
    /// What went wrong between two turns.
    failed: Option<StreamError>,
    /// What went wrong with what comes in: no more is taken, and the stream ends with this when what was taken before has left.
    failing: Option<StreamError>,
    /// What became of the last input that failed and was survived.
    no_input: Option<String>,
    /// An input came to its end, or was detached.
    has_input_ended: bool,
    /// When outputs are looked at next that may take nothing.
    look_again_us: u64,
    /// Why the last output is gone, while those that leave still send.
    no_output: Option<String>,
    /// Whose connection has failed, if that is to end the stream.
    broken: Option<Port>,
    /// What the turn may move.
    allowance: u64,
    /// How much has moved when the turn is over.
    turn_end: u64,
    /// The output that sends first, those that leave counted behind the others.
    next_to_send: usize,
    /// Everybody has come who the stream was built to wait for.
    has_begun: bool,
    /// Who was attached later and waits for somebody to connect.
    expected: Vec<Expected>,
    /// There was no descriptor for somebody who has come: when that is tried again.
    accept_again_us: Option<u64>,
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
    /// Whether it ends when a connection fails, whatever it waits for.
    ends_with_connections: bool,
    /// Whether bytes that nobody looks at need not be copied: false where an object cannot do that.
    moves_unseen: bool,
    /// How long an output may take nothing before it has failed, in microseconds.
    stall_us: u64,
    /// Whether that holds at any time, not only when nothing else is left to wait for.
    limits_stalls: bool,
    /// Bytes of datagrams for outputs that are such.
    packet_bytes: Option<usize>,
    /// Whether an input has, or had, records that came as datagrams, which outputs of datagrams are not to join.
    keeps_datagrams: bool,
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
    processor_ns: Option<u64>,
    gone_outputs: GoneOutputs,
    /// Of inputs that are gone.
    malformed: Dropped,
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
    /// Under [`Order::Arrival`]: is in the queue of those that may have something.
    is_queued: bool,
    /// Waits for storage.
    busy: bool,
    supply: Supply,
    /// To be detached when it is between two records.
    detach: Option<OnDetached>,
    bytes: u64,
    records: u64,
    /// Of shares: the next one of a stream of bytes is of this record, or one behind it.
    next_share: u64,
    /// Datagrams that were dropped because they are not what they should be.
    malformed: Dropped,
    /// Why the first of them was, until that is told.
    misfit: Option<String>,
}

/// What is still to come of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    /// There may be more.
    Open,
    /// It has come to its end.
    Ended,
    /// No more is read of it, whatever it has: the stream fails.
    Cut,
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
    /// Its descriptor is waited for.
    watched: bool,
    /// Waits for storage.
    busy: bool,
    /// Bytes that are being written elsewhere, or could not be.
    storing: usize,
    /// Did not keep up.
    is_disconnected: bool,
    /// Got the beginning of a record and not yet its end.
    within: bool,
    detach: Option<OnDetached>,
    /// Since when it, or its peer, takes nothing, once nothing more comes.
    stall_detector: StallDetector<u64>,
    lately: Lately,
    bytes: u64,
    lost_bytes: u64,
}

/// Gets an object back.
type OnDetached = Box<dyn FnOnce(Object) + Send>;

/// How inputs are put in order.
enum Order {
    Turns(Turns),
    Arrival(Arrivals),
    Tags { tag: Box<Tag>, merge: Merge<Run> },
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

/// The output at `place`, those that leave counted behind the others.
fn nth_mut<'a>(outputs: &'a mut [Output], leaving: &'a mut [Output], place: usize) -> Option<&'a mut Output> {
    let staying = outputs.len();
    if place < staying { outputs.get_mut(place) } else { leaving.get_mut(place - staying) }
}

#[cfg(test)]
mod tests;
