//! What a stream did so far: KStreams' poll.

use std::time::Duration;

use super::Stream;
use crate::intake::{Input, InputStatus, MergeCounts};
use crate::outbox::Dropped;
use crate::outputs::{EndedOutput, GoneOutputs, Output, OutputStatus};
use crate::secret::{Collector, ShareCounts};

/// What a stream did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// Bytes that were read.
    pub bytes_in: u64,
    /// Records that were begun. A stream of bytes without framing is one; none if all of it moved without
    /// copies.
    pub records_in: u64,
    /// Of the bytes read, those that moved without being copied to the program and back.
    pub zero_copy_bytes: u64,
    /// Bytes that outputs took.
    pub bytes_out: u64,
    /// Bytes that were read and not yet given to outputs: parts of records, records in a merge, what waits
    /// for room.
    pub bytes_pending: u64,
    /// Bytes that were read and go nowhere: late records, the rest of a record whose output is gone, the part
    /// that an input had when it failed, malformed datagrams, shares of records that were given up.
    pub bytes_dropped: u64,
    /// Bytes that were read, and went back with an input that was detached.
    pub bytes_returned: u64,
    /// Processor time that its turns took on engine threads where classes share that
    /// ([`Round::ProcessorTime`](crate::Round)); none if no turn was measured. Without what threads that read
    /// and write files did for it. Interrupts and soft interrupts that came during a turn are in it, unless
    /// the kernel accounts for them apart (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub processor_time: Option<Duration>,
    /// Datagrams that were dropped because they are not what they should be, of all inputs, those that are
    /// gone too.
    pub malformed: Dropped,
    /// Its inputs, without those that ended.
    pub inputs: Vec<InputStatus>,
    /// Its outputs, without those that are gone.
    pub outputs: Vec<OutputStatus>,
    /// The outputs that are gone, the last 64 of them, in the order in which they went.
    pub ended_outputs: Vec<EndedOutput>,
    /// How many are gone, all of them, and how.
    pub gone_outputs: GoneOutputs,
    /// What handlers of the stream report: the handler, what, and how much.
    pub reports: Vec<(&'static str, &'static str, u64)>,
    /// What a merge by tag counted, if there is one.
    pub merge: Option<MergeCounts>,
    /// What putting shares together counted, if that is done.
    pub shares: Option<ShareCounts>,
}

impl Stream {
    /// Bytes that TCP outputs took and their peers have not acknowledged: they may be long on their way to a
    /// peer that reads slowly.
    pub fn unacknowledged(&self) -> u64 {
        self.outputs.all().map(|output| u64::from(output.object.unacknowledged())).sum()
    }

    /// What it did so far.
    pub fn status(&self) -> StreamStatus {
        let Stream { intake, chain, spread, outputs, listening, .. } = self;
        let counts = intake.counts();
        let pending_bytes = intake.pending_bytes() + chain.gathered() + spread.pending_bytes();
        StreamStatus {
            bytes_in: counts.bytes,
            records_in: counts.records,
            zero_copy_bytes: counts.zero_copy_bytes,
            bytes_out: outputs.taken_bytes(),
            bytes_pending: pending_bytes as u64,
            bytes_dropped: intake.dropped_bytes() + chain.dropped_bytes() + spread.dropped_bytes(),
            bytes_returned: counts.returned_bytes,
            processor_time: self.processor_ns.map(Duration::from_nanos),
            malformed: intake.malformed(),
            inputs: intake.inputs.iter().map(Input::status).chain(listening.input_statuses()).collect(),
            outputs: outputs.all().map(Output::status).chain(listening.output_statuses()).collect(),
            ended_outputs: outputs.ended().cloned().collect(),
            gone_outputs: outputs.gone(),
            reports: chain.reports(),
            merge: intake.merge_counts(),
            shares: intake.collector().map(Collector::counts),
        }
    }
}
