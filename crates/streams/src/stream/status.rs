//! What a stream did so far: KStreams' poll.

use std::fmt;
use std::time::Duration;

use super::expected::Expected;
use super::{Input, Order, Port, Stream};
use crate::merge::MergeCounts;
use crate::outbox::Dropped;
use crate::secret::{Collector, ShareCounts};

/// What a stream did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// Bytes that were read.
    pub bytes_in: u64,
    /// Records that were begun. A stream of bytes without framing is one; none if all of it was moved unseen.
    pub records_in: u64,
    /// Of these, bytes that were moved without being copied to the program and back.
    pub bytes_unseen: u64,
    /// Bytes that outputs took.
    pub bytes_out: u64,
    /// Bytes that were read and not yet given to outputs: parts of records, records in a merge, what waits for room.
    pub bytes_pending: u64,
    /// Bytes that were read and go nowhere: late records, the rest of a record whose output is gone, the part that an input had when
    /// it failed, malformed datagrams, shares of records that were given up.
    pub bytes_dropped: u64,
    /// Bytes that were read, and went back with an input that was detached.
    pub bytes_returned: u64,
    /// Processor time that its turns took on engine threads where classes share that ([`Round::ProcessorTime`](crate::Round)); none
    /// if no turn was measured. Without what threads that read and write files did for it. Interrupts and soft interrupts that came
    /// during a turn are in it, unless the kernel accounts for them apart (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub processor_time: Option<Duration>,
    /// Datagrams that were dropped because they are not what they should be, of all inputs, those that are gone too.
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

/// What an input did so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputStatus {
    /// Which.
    pub port: Port,
    /// Its name.
    pub name: String,
    /// Bytes that were read.
    pub bytes: u64,
    /// Records that were begun, as in [`StreamStatus::records_in`].
    pub records: u64,
    /// Datagrams that were dropped, because they do not fit the framing, are no shares, or came without what says how they were
    /// gathered.
    pub malformed: Dropped,
}

/// What an output did so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputStatus {
    /// Which.
    pub port: Port,
    /// Its name.
    pub name: String,
    /// Bytes that it took.
    pub bytes: u64,
    /// Bytes that wait for it, if only for the rest of a record that a handler of its takes whole, or that it failed to take.
    pub waiting_bytes: u64,
    /// What was dropped because it was full.
    pub dropped: Dropped,
    /// Bytes of datagrams that did not leave: there was no route, a filter forbade it, or they were too long for it.
    pub lost_bytes: u64,
    /// How often the network said (ICMP) that datagrams came nowhere which the output had taken: nobody listens, as a rule. They are
    /// among [`OutputStatus::bytes`], since nothing says which they were, and several may be told of at once.
    pub icmp_errors: u64,
    /// What its own handlers report: the handler, what, and how much.
    pub reports: Vec<(&'static str, &'static str, u64)>,
}

/// Its number within the stream, which tells outputs of one name apart.
impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What an output did that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedOutput {
    /// Which.
    pub port: Port,
    /// Its name.
    pub name: String,
    /// Bytes that it took.
    pub bytes: u64,
    /// What was dropped because it was full, and what waited for it when it went.
    pub dropped: Dropped,
    /// Bytes of datagrams that did not leave: there was no route, a filter forbade it, or they were too long for it.
    pub lost_bytes: u64,
    /// As [`OutputStatus::icmp_errors`].
    pub icmp_errors: u64,
    /// Why it is gone.
    pub why: String,
}

/// How many outputs are gone, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoneOutputs {
    /// They failed, and the stream went on.
    pub failed: u64,
    /// They did not keep up, and were to be let go of then.
    pub disconnected: u64,
    /// They were detached.
    pub detached: u64,
}

impl Stream {
    /// Bytes that TCP outputs took and their peers have not acknowledged: they may have long to go to somebody who reads slowly.
    pub fn unacknowledged(&self) -> u64 {
        let outputs = self.outputs.iter().chain(&self.leaving);
        outputs.map(|output| u64::from(output.object.unacknowledged())).sum()
    }

    /// What it did so far.
    pub fn status(&self) -> StreamStatus {
        let inputs = self.inputs.iter().map(|input| InputStatus {
            port: input.port,
            name: input.object.name.clone(),
            bytes: input.bytes,
            records: input.records,
            malformed: input.malformed,
        });
        let outputs = self.outputs.iter().chain(&self.leaving).map(|output| OutputStatus {
            port: output.port,
            name: output.object.name.clone(),
            bytes: output.bytes,
            waiting_bytes: output.waiting() as u64,
            dropped: output.outbox.dropped(),
            lost_bytes: output.lost_bytes,
            icmp_errors: output.object.icmp_errors(),
            reports: output.chain.reports(),
        });
        let malformed = self.inputs.iter().fold(self.counts.malformed, |sum, input| sum + input.malformed);
        let collector = if let Order::Shares(collector) = &self.order { Some(collector) } else { None };
        let lost_shares = collector.map_or(0, Collector::lost_bytes);
        StreamStatus {
            bytes_in: self.counts.bytes_in,
            records_in: self.counts.records_in,
            bytes_unseen: self.counts.bytes_unseen,
            bytes_out: self.counts.bytes_out,
            bytes_pending: self.pending_bytes() as u64,
            bytes_dropped: self.counts.bytes_dropped + malformed.bytes + lost_shares,
            bytes_returned: self.counts.bytes_returned,
            processor_time: self.counts.processor_ns.map(Duration::from_nanos),
            malformed,
            inputs: inputs.chain(self.expected.iter().filter_map(Expected::input_status)).collect(),
            outputs: outputs.chain(self.expected.iter().filter_map(Expected::output_status)).collect(),
            ended_outputs: self.ended.iter().cloned().collect(),
            gone_outputs: self.counts.gone_outputs,
            reports: self.chain.reports(),
            merge: if let Order::Tags { merge, .. } = &self.order { Some(merge.counts()) } else { None },
            shares: collector.map(Collector::counts),
        }
    }
}

impl Stream {
    fn pending_bytes(&self) -> usize {
        let merged = match &self.order {
            Order::Tags { merge, .. } => merge.bytes(),
            Order::Shares(collector) => collector.bytes(),
            Order::Turns(_) | Order::Arrival(_) => 0,
        };
        let kept = self.inputs.iter().map(Input::kept);
        let placed = self.pending.iter().map(|run| run.bytes.len());
        kept.chain(placed).sum::<usize>() + merged + self.chain.gathered()
    }
}
