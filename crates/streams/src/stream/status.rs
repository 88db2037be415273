//! Status of a stream: KStreams' poll.

use std::time::Duration;

use super::Stream;
use crate::handler::HandlerStatus;
use crate::intake::{Input, InputStatus, JoinCounts, MergeCounts};
use crate::outbox::Dropped;
use crate::outputs::{GoneOutputs, Output, OutputStatus};
use crate::secret::ShareCounts;

/// Status of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// Bytes that were read.
    pub bytes_in: u64,
    /// Records that were begun. A stream of bytes without framing is one; none if all of it took the
    /// zero-copy route.
    pub records_in: u64,
    /// Bytes read that took the zero-copy route.
    pub zero_copy_bytes: u64,
    /// Bytes that outputs took.
    pub bytes_out: u64,
    /// Bytes that were lent to the kernel: long trains of datagrams for many outputs, copied once for all of them.
    pub lent_bytes: u64,
    /// Bytes that were read and not yet given to outputs: parts of records, records in a merge, and those
    /// without room.
    pub bytes_pending: u64,
    /// Bytes that were read and lost: late records, the rest of a record whose output is gone, the part that
    /// an input had when it failed, malformed datagrams, shares and portions of records that were given up.
    pub bytes_dropped: u64,
    /// Bytes that went back with a detached input.
    pub bytes_returned: u64,
    /// Processor time of its turns on engine threads whose classes share that
    /// ([`Round::ProcessorTime`](crate::engine::Round)); none if no turn was measured. Without that of
    /// storage threads. With interrupts and soft interrupts during a turn, unless the kernel accounts for
    /// them apart (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub processor_time: Option<Duration>,
    /// Malformed datagrams that were dropped, of all inputs, those that are gone too.
    pub malformed: Dropped,
    /// Its inputs by port, without those that ended.
    pub inputs: Vec<InputStatus>,
    /// Its outputs by port, without those that are gone.
    pub outputs: Vec<OutputStatus>,
    /// The last 64 outputs that are gone, in the order in which they went.
    pub ended_outputs: Vec<OutputStatus>,
    /// Number of all outputs that are gone, by reason.
    pub gone_outputs: GoneOutputs,
    /// Reports of the stream's handlers: the handler's name, and the name and value.
    pub reports: Vec<(&'static str, &'static str, u64)>,
    /// The stream's handlers, in the order in which they see records.
    pub handlers: Vec<HandlerStatus>,
    /// Counts of a merge by tag, if there is one.
    pub merge: Option<MergeCounts>,
    /// Counts of a join, if there is one.
    pub join: Option<JoinCounts>,
    /// Counts of combining shares, if that is done.
    pub shares: Option<ShareCounts>,
}

impl Stream {
    /// Bytes that TCP outputs took and their peers have not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.outputs.all().map(|output| u64::from(output.object.unacknowledged())).sum()
    }

    /// Returns whether all that has arrived is sent on: nothing waits in sockets of inputs, here, or for an
    /// output.
    pub fn is_drained(&self) -> bool {
        let Stream { intake, chain, spread, outputs, .. } = self;
        intake.pending_bytes() + chain.gathered() + spread.pending_bytes() == 0
            && outputs.all().all(Output::is_idle)
            && !intake.inputs.iter().any(|input| input.object.has_arrived_bytes())
    }

    /// Status so far.
    pub fn status(&self) -> StreamStatus {
        let Stream { intake, chain, spread, outputs, listening, .. } = self;
        let counts = intake.counts;
        let inputs = intake.inputs.iter().map(Input::status);
        let mut inputs: Vec<InputStatus> = inputs.chain(listening.input_statuses()).collect();
        inputs.sort_by_key(|input| input.port);
        let all_outputs = outputs.all().map(Output::status);
        let mut all_outputs: Vec<OutputStatus> = all_outputs.chain(listening.output_statuses()).collect();
        all_outputs.sort_by_key(|output| output.port);
        let pending_bytes = intake.pending_bytes() + chain.gathered() + spread.pending_bytes();
        StreamStatus {
            bytes_in: counts.bytes,
            records_in: counts.records,
            zero_copy_bytes: counts.zero_copy_bytes,
            bytes_out: outputs.taken_bytes,
            lent_bytes: outputs.lent_bytes,
            bytes_pending: pending_bytes as u64,
            bytes_dropped: intake.dropped_bytes() + chain.dropped_bytes + spread.dropped_bytes,
            bytes_returned: counts.returned_bytes,
            processor_time: self.processor_ns.map(Duration::from_nanos),
            malformed: intake.malformed(),
            inputs,
            outputs: all_outputs,
            ended_outputs: outputs.ended.iter().cloned().collect(),
            gone_outputs: outputs.gone,
            reports: chain.reports(),
            handlers: chain.statuses(),
            merge: intake.merge_counts(),
            join: intake.join_counts(),
            shares: intake.collector().map(|collector| collector.counts),
        }
    }
}
