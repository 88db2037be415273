//! Intake, the first part of a stream: its inputs, and the order in which records are taken from them.
//!
//! [`Input`] divides the bytes of an object into records. [`Order`] chooses the input to read next; [`pull`]
//! reads it and hands records on. The zero-copy route uses the same order ([`Intake::next_ready`],
//! [`Intake::took`]).

mod arrival;
mod detach;
mod gather;
mod input;
mod join;
mod joining;
mod merge;
mod next;
mod order;
mod peek;
mod polling;
mod pull;
mod shares;
mod zero_copy;

use bytes::BytesMut;

use crate::chain::PeekScope;
use crate::error::StreamError;
use crate::event::StreamEvent;
use crate::framing::{Framing, LONGEST, Splitter};
use crate::handler::Reach;
use crate::object::Object;
use crate::outbox::Dropped;
use crate::port::Port;
use crate::record::Run;
use crate::secret::Collector;
use crate::shared::Shared;
pub use input::InputStatus;
use input::Supply;
pub(crate) use input::{Input, Pulled};
pub use join::JoinCounts;
pub use merge::{Late, MergeCounts};
pub use order::InputOrder;
pub(crate) use order::Order;
pub(crate) use peek::Peeked;
pub use polling::{InputState, PollingOrder, ReadyInputs};
pub(crate) use zero_copy::GoingBy;
use zero_copy::ZeroCopyCheck;

/// Reads the tag of a record, or the key of a portion.
pub type Tag = dyn FnMut(&[u8]) -> Option<u64> + Send;

/// Receiver of runs.
pub(crate) type HandOn<'a> = dyn FnMut(Run<BytesMut>, &mut Shared) + 'a;

/// The inputs of a stream, in the order of their ports.
pub(crate) struct Intake {
    pub(crate) inputs: Vec<Input>,
    pub(crate) order: Order,
    needs: Needs,
    zero_copy: ZeroCopyCheck,
    /// Part of records that a handler peeks at before they move.
    peek_scope: PeekScope,
    /// Bytes of an input that a handler has peeked at and passed, and that have not moved yet.
    seen: Option<(Port, usize)>,
    /// Number of inputs that are being detached.
    detaching: usize,
    /// The stream is failing, and nothing more is read.
    is_cut: bool,
    /// Error of the last input that failed without ending the stream.
    last_failure: Option<String>,
    /// An input has ended or was detached.
    pub(crate) has_input_ended: bool,
    /// The last run belongs to a byte stream without framing.
    pub(crate) last_is_unframed: bool,
    pub(crate) counts: Counts,
}

/// Requirements of handlers, order and outputs.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// Most bytes of a record, if only whole records can be used.
    whole: Option<usize>,
    /// Size of the datagrams that unframed bytes are divided into.
    packet_bytes: Option<usize>,
    /// Short records are handed on whole.
    short_whole: bool,
}

/// Counts of all inputs, including removed ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) dropped_bytes: u64,
    pub(crate) returned_bytes: u64,
    /// Bytes that took the zero-copy route.
    pub(crate) zero_copy_bytes: u64,
    /// Malformed datagrams of removed inputs.
    malformed: Dropped,
}

impl Intake {
    pub(crate) fn new(order: Order, whole: Option<usize>) -> Intake {
        Intake {
            inputs: Vec::new(),
            order,
            needs: Needs { whole, ..Needs::default() },
            zero_copy: ZeroCopyCheck::default(),
            peek_scope: PeekScope::Nothing,
            seen: None,
            detaching: 0,
            is_cut: false,
            last_failure: None,
            has_input_ended: false,
            last_is_unframed: false,
            counts: Counts::default(),
        }
    }

    /// Inserts an input that is already watched. Returns whether its records are datagrams as received.
    pub(crate) fn insert(&mut self, port: Port, object: Object, framing: Framing) -> bool {
        let mut splitter = Splitter::new(framing, self.needs.whole);
        if let Some(packet_bytes) = self.needs.packet_bytes.filter(|_| !object.has_records()) {
            splitter.divide_into(packet_bytes);
        }
        if self.needs.short_whole {
            splitter.keep_short_whole();
        }
        let keeps_datagrams = object.has_records() && splitter.is_whole();
        let place = self.inputs.partition_point(|input| input.port < port);
        match &mut self.order {
            Order::Tags { merge, .. } => merge.add_input(place),
            Order::Turns(turns) => turns.inserted(place),
            Order::Join(join) => join.add(port),
            Order::Arrival(_) | Order::Shares(_) => {}
        }
        let supply = if self.is_cut { Supply::Cut } else { Supply::Open };
        self.inputs.insert(place, Input::new(port, object, splitter, supply));
        self.zero_copy.note_change();
        self.wake(place);
        keeps_datagrams
    }

    pub(crate) fn place_of(&self, port: Port) -> Option<usize> {
        self.inputs.binary_search_by_key(&port, |input| input.port).ok()
    }

    /// Requires whole records of at most `limit` bytes from inputs, from their next record on.
    pub(crate) fn need_whole(&mut self, limit: usize) {
        if self.needs.whole.is_some_and(|before| before <= limit) {
            return;
        }
        self.needs.whole = Some(limit);
        self.each_from_next_record(|input| input.splitter.need_whole(limit));
    }

    /// Adapts inputs to the reach of a handler, from their next record on. For slices, if records need not be
    /// whole for another reason, unframed bytes begin another record, which the handler sees completely.
    pub(crate) fn meet(&mut self, reach: Reach) {
        match reach {
            Reach::Pieces => {}
            Reach::Records { limit } => self.need_whole(limit.min(LONGEST)),
            Reach::Slices { limit } if self.needs.whole.is_some() => self.need_whole(limit.min(LONGEST)),
            Reach::Slices { .. } => self.keep_short_whole(),
        }
    }

    /// Requires whole short records from inputs, from their next record on.
    pub(crate) fn keep_short_whole(&mut self) {
        self.needs.short_whole = true;
        self.each_from_next_record(|input| input.splitter.keep_short_whole());
    }

    /// Divides unframed bytes into datagrams from now on: they have no end at which a datagram could leave.
    pub(crate) fn divide_into_datagrams(&mut self, packet_bytes: usize) {
        if self.needs.packet_bytes.is_some() {
            return;
        }
        self.needs.packet_bytes = Some(packet_bytes);
        self.each_from_next_record(|input| {
            if !input.object.has_records() {
                input.splitter.divide_into(packet_bytes);
            }
        });
    }

    fn each_from_next_record(&mut self, mut change: impl FnMut(&mut Input)) {
        for input in &mut self.inputs {
            input.cut();
            change(input);
        }
        self.zero_copy.note_change();
        self.wake_all();
    }

    /// Marks an input as readable. Returns false if there is no such input.
    pub(crate) fn note_ready(&mut self, port: Port) -> bool {
        let Some(place) = self.place_of(port) else { return false };
        self.inputs[place].readable = true;
        self.wake(place);
        true
    }

    pub(crate) fn note_all_ready(&mut self) {
        self.inputs.iter_mut().for_each(|input| input.readable = true);
        self.wake_all();
    }

    /// Marks urgent data of a connection; `splice` does not pass it.
    pub(crate) fn note_urgent(&mut self, port: Port) {
        let Some(place) = self.place_of(port) else { return };
        if let Some(connection) = self.inputs[place].object.connection_mut() {
            connection.has_urgent = true;
            self.zero_copy.note_change();
        }
    }

    /// Handles the result of reading ahead up to byte `until`.
    pub(crate) fn note_warm(
        &mut self,
        place: usize,
        until: u64,
        result: Result<(), rustix::io::Errno>,
        shared: &mut Shared,
    ) {
        self.wake(place);
        let input = &mut self.inputs[place];
        input.busy = false;
        match result {
            Ok(()) => input.object.warmed(until),
            Err(errno) => {
                let error = input.object.error("reading ahead", errno);
                self.fail_input(place, error.into(), shared);
            }
        }
    }

    /// Handles the error of an input. The stream fails, or continues without the input after the bytes read
    /// from it have left.
    pub(crate) fn fail_input(&mut self, place: usize, error: StreamError, shared: &mut Shared) {
        self.zero_copy.note_change();
        let input = &mut self.inputs[place];
        // The bytes not yet divided into records never will be.
        self.counts.dropped_bytes += input.buffer.len() as u64;
        input.buffer.clear();
        input.supply = Supply::Cut;
        let port = input.port;
        self.wake(place);
        if !shared.settings.survives_inputs {
            shared.fail(error);
            return self.cut_if_failing(shared);
        }
        let error = error.to_string();
        self.last_failure = Some(error.clone());
        shared.tell(StreamEvent::InputFailed { port, error });
    }

    /// Stops reading all inputs once the stream is failing.
    pub(crate) fn cut_if_failing(&mut self, shared: &Shared) {
        if self.is_cut || !shared.is_failing() {
            return;
        }
        self.is_cut = true;
        self.inputs.iter_mut().for_each(Input::cut_supply);
        self.zero_copy.note_change();
        self.wake_all();
    }

    /// Error of the stream if all its inputs failed.
    pub(crate) fn failure_of_all(&mut self) -> Option<StreamError> {
        self.last_failure.take_if(|_| !self.has_input_ended).map(StreamError::NoInput)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Returns whether all bytes taken from inputs were handed on.
    pub(crate) fn nothing_waits(&self) -> bool {
        match &self.order {
            Order::Tags { merge, .. } => merge.is_done(),
            Order::Shares(collector) => collector.is_empty(),
            Order::Join(join) => join.is_empty(),
            Order::Turns(_) | Order::Arrival(_) => true,
        }
    }

    /// Returns whether the current record is a byte stream without framing, which has no record boundaries.
    pub(crate) fn is_within_unframed(&self) -> bool {
        self.inputs.iter().any(|input| input.is_unframed() && !input.splitter.at_boundary())
    }

    pub(crate) fn is_within_record(&self) -> bool {
        self.inputs.iter().any(|input| !input.splitter.at_boundary())
    }

    pub(crate) fn waits_for_storage(&self) -> bool {
        self.inputs.iter().any(|input| input.busy)
    }

    pub(crate) fn malformed(&self) -> Dropped {
        self.inputs.iter().fold(self.counts.malformed, |sum, input| sum + input.malformed)
    }

    /// Bytes that were dropped, including malformed datagrams and parts of lost records.
    pub(crate) fn dropped_bytes(&self) -> u64 {
        let lost_parts = match &self.order {
            Order::Shares(collector) => collector.lost_bytes,
            Order::Join(join) => join.lost_bytes,
            Order::Turns(_) | Order::Arrival(_) | Order::Tags { .. } => 0,
        };
        self.counts.dropped_bytes + self.malformed().bytes + lost_parts
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        let ordered = match &self.order {
            Order::Tags { merge, .. } => merge.bytes,
            Order::Shares(collector) => collector.bytes,
            Order::Join(join) => join.bytes,
            Order::Turns(_) | Order::Arrival(_) => 0,
        };
        self.inputs.iter().map(Input::kept).sum::<usize>() + ordered
    }

    pub(crate) fn merge_counts(&self) -> Option<MergeCounts> {
        if let Order::Tags { merge, .. } = &self.order { Some(merge.counts) } else { None }
    }

    pub(crate) fn join_counts(&self) -> Option<JoinCounts> {
        if let Order::Join(join) = &self.order { Some(join.counts) } else { None }
    }

    pub(crate) fn collector(&self) -> Option<&Collector> {
        if let Order::Shares(collector) = &self.order { Some(collector) } else { None }
    }
}

impl Input {
    /// Stops reading. A record of which only the beginning has arrived is not handed on.
    fn cut_supply(&mut self) {
        if self.supply == Supply::Open {
            self.supply = Supply::Cut;
            if !self.is_unframed() {
                self.splitter.need_whole(LONGEST);
            }
        }
    }
}
