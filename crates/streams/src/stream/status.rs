//! Status of a stream: the poll of KStreams.

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
    /// Records that have begun. A byte stream without framing counts as one record; as none if all of it took
    /// the zero-copy route.
    pub records_in: u64,
    /// Bytes that were read on the zero-copy route.
    pub zero_copy_bytes: u64,
    /// Bytes that outputs have taken.
    pub bytes_out: u64,
    /// Bytes that were lent to the kernel: long trains of datagrams for many outputs, copied once for all
    /// outputs.
    pub lent_bytes: u64,
    /// Bytes that were read and not yet given to outputs: parts of records, records waiting in a merge, and
    /// records for which there is no room.
    pub bytes_pending: u64,
    /// Bytes that were read and lost: late records, the rest of a record whose output was removed, the
    /// incomplete record of a failed input, malformed datagrams, and shares and portions of records that were
    /// given up.
    pub bytes_dropped: u64,
    /// Bytes that were returned with a detached input.
    pub bytes_returned: u64,
    /// Processor time of the stream's turns on engine threads whose classes share processor time
    /// ([`Round::ProcessorTime`](crate::engine::Round)); None if no turn was measured. Excludes time of
    /// storage threads. Includes interrupts and soft interrupts during a turn, unless the kernel accounts for
    /// them separately (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub processor_time: Option<Duration>,
    /// Malformed datagrams that were dropped, of all inputs, including removed ones.
    pub malformed: Dropped,
    /// Inputs by port, without inputs that ended.
    pub inputs: Vec<InputStatus>,
    /// Outputs by port, without removed outputs.
    pub outputs: Vec<OutputStatus>,
    /// The last 64 removed outputs, in the order of removal.
    pub ended_outputs: Vec<OutputStatus>,
    /// Number of all removed outputs, by reason.
    pub gone_outputs: GoneOutputs,
    /// Reports of the stream's handlers: the handler's name, and the name and value.
    pub reports: Vec<(&'static str, &'static str, u64)>,
    /// The stream's handlers, in the order in which they see records.
    pub handlers: Vec<HandlerStatus>,
    /// Counts of a merge by tag, if there is one.
    pub merge: Option<MergeCounts>,
    /// Counts of a join, if there is one.
    pub join: Option<JoinCounts>,
    /// Counts of combining shares, if the stream combines shares.
    pub shares: Option<ShareCounts>,
}

impl Stream {
    /// Bytes that TCP outputs have taken and their peers have not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.outputs.all().map(|output| u64::from(output.object.unacknowledged())).sum()
    }

    /// Returns whether all bytes that have arrived were sent: none wait in sockets of inputs, in the stream,
    /// or for an output.
    pub fn is_drained(&self) -> bool {
        let Stream { intake, chain, spread, outputs, .. } = self;
        intake.pending_bytes() + chain.gathered() + spread.pending_bytes() == 0
            && outputs.all().all(Output::is_idle)
            && !intake.inputs.iter().any(|input| input.object.has_arrived_bytes())
    }

    /// Current status.
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
