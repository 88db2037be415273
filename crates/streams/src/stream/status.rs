//! What a stream did so far: KStreams' poll.

use super::{Order, Port, Stream};
use crate::merge::MergeCounts;
use crate::outbox::Dropped;
use crate::secret::ShareCounts;

/// What a stream did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// Bytes that were read.
    pub bytes_in: u64,
    /// Records that were read, parts of records counted like records.
    pub records_in: u64,
    /// Of these, bytes that were moved without being copied to the program and back.
    pub bytes_unseen: u64,
    /// Bytes that outputs took.
    pub bytes_out: u64,
    /// Its inputs, without those that ended.
    pub inputs: Vec<InputStatus>,
    /// Its outputs, without those that are gone.
    pub outputs: Vec<OutputStatus>,
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
    /// Records that were taken, parts of records counted like records.
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
    /// Bytes that wait for it.
    pub waiting_bytes: u64,
    /// What was dropped because it was full.
    pub dropped: Dropped,
    /// Bytes of datagrams that nobody could be reached with.
    pub lost_bytes: u64,
    /// What its own handlers report: the handler, what, and how much.
    pub reports: Vec<(&'static str, &'static str, u64)>,
}

impl Stream {
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
            waiting_bytes: (output.outbox.bytes() + output.held()) as u64,
            dropped: output.outbox.dropped(),
            lost_bytes: output.lost_bytes,
            reports: output.chain.reports(),
        });
        StreamStatus {
            bytes_in: self.counts.bytes_in,
            records_in: self.counts.records_in,
            bytes_unseen: self.counts.bytes_unseen,
            bytes_out: self.counts.bytes_out,
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            reports: self.chain.reports(),
            merge: if let Order::Tags { merge, .. } = &self.order { Some(merge.counts()) } else { None },
            shares: if let Order::Shares(collector) = &self.order { Some(collector.counts()) } else { None },
        }
    }
}
