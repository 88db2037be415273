//! Page loans in a result.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Transport;
use crate::confidence::MedianRatio;
use crate::statistics::Summary;

/// Page loans compared with copies (figures 1 to 6 of the zero-copy protocol paper).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loan {
    /// One point for each size, alignment, MTU and transport. The summarised runs are in the measurements.
    pub points: Vec<LoanPoint>,
    /// Thresholds by MTU and transport; none without sufficient data.
    pub thresholds: Vec<Threshold>,
    /// Sends to a device whose queue can be full; empty in old results.
    #[serde(default)]
    pub queue: Vec<QueuePoint>,
}

/// Sends of one kind and size as fast as possible to a device with a rate and a queue with a limit (figure 6 of
/// the zero-copy protocol paper). A refused send (ENOBUFS) is not sent again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuePoint {
    /// Kind of the sends.
    pub kind: QueuedSend,
    /// Bytes of a send.
    pub size: u64,
    /// MTU of the device.
    pub mtu: u32,
    /// Rate of the device in bits per second, headers included.
    pub bits_per_second: u64,
    /// Limit of the queue in bytes, headers included.
    pub queue_bytes: u64,
    /// Runs.
    pub runs: Vec<QueueRun>,
}

/// Kind of sends to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueuedSend {
    /// Copied, as a train of datagrams that fill the MTU.
    Copied,
    /// Lent, as such a train.
    Lent,
    /// Copied, as one datagram that the kernel fragments.
    Fragments,
    /// By reference from a file (`sendfile`), as one datagram that the kernel fragments.
    Spliced,
}

impl fmt::Display for QueuedSend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            QueuedSend::Copied => "copied",
            QueuedSend::Lent => "lent",
            QueuedSend::Fragments => "copied and fragmented",
            QueuedSend::Spliced => "by reference and fragmented",
        })
    }
}

/// Run of sends to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueRun {
    /// Accepted sends.
    pub sent: u64,
    /// Refused sends.
    pub errors: u64,
    /// Packets that the queue dropped, by its own counter.
    pub dropped: u64,
    /// Loans that the kernel turned into copies.
    pub copied_by_kernel: u64,
    /// User and system seconds.
    pub cpu_s: f64,
    /// Elapsed seconds.
    pub wall_s: f64,
}

impl QueuePoint {
    /// Refused sends for each accepted one, run by run.
    pub fn errors_per_send(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.errors as f64 / run.sent as f64).collect()
    }
}

/// Cost of sends of one size. A send is one call: over UDP one train of datagrams that fill the MTU, the same
/// for copies and loans; over TCP `size` bytes of the connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoanPoint {
    /// Bytes of a send.
    pub size: u64,
    /// MTU of the device.
    pub mtu: u32,
    /// UDP or TCP.
    pub transport: Transport,
    /// True if each send begins at a page boundary; else each send begins 64 bytes before (in results until
    /// 2026-11-29, one byte), and so covers part of one more page.
    pub aligned: bool,
    /// Processor seconds of the copy alone, from uncached memory, per send, run by run (t1 of the paper).
    pub copy_s: Vec<f64>,
    /// Processor seconds of a send that copies, run by run (t1 + t2).
    pub copied_send_s: Vec<f64>,
    /// Processor seconds of a send that lends, reclaiming the loan included, run by run; empty if lending
    /// does not work, or if the kernel copied lent pages.
    pub lent_send_s: Vec<f64>,
    /// Sustained bytes per second of elapsed time with copies, median of the runs.
    pub copied_throughput: f64,
    /// Sustained bytes per second with loans; null if `lent_send_s` is empty.
    pub lent_throughput: Option<f64>,
    /// Sends that the kernel refused because of full buffers (ENOBUFS, EAGAIN) in all runs, with copies; each
    /// send was retried.
    pub copied_errors: u64,
    /// As `copied_errors`, with loans.
    pub lent_errors: u64,
    /// Processor seconds of a send of the path `loan`, which lends or copies by the calibration of earlier
    /// results, in the same rounds; empty in results without it.
    #[serde(default)]
    pub auto_send_s: Vec<f64>,
    /// True if the policy of these sends lends, as far as the kernel does not copy.
    #[serde(default)]
    pub auto_lends: Option<bool>,
    /// `lent_send_s` over `copied_send_s` of the same rounds: which of both is cheaper. Null in old results.
    #[serde(default)]
    pub lent_to_copied: Option<MedianRatio>,
    /// `auto_send_s` over the times of the kind of sends with the lower median, of the same rounds.
    #[serde(default)]
    pub auto_to_best: Option<MedianRatio>,
    /// Processor seconds of a send that copies as one datagram, which the kernel fragments, in the same rounds;
    /// empty if it fits into a packet, over TCP, and in old results.
    #[serde(default)]
    pub fragments_send_s: Vec<f64>,
    /// As `fragments_send_s`, by reference from the file (`sendfile`).
    #[serde(default)]
    pub spliced_send_s: Vec<f64>,
}

impl LoanPoint {
    /// Times of the kind of sends with the lower median: the better of copying and lending.
    pub fn best_send_s(&self) -> &[f64] {
        let median = |runs: &[f64]| Summary::of(runs.iter().copied()).map(|summary| summary.median);
        match (median(&self.lent_send_s), median(&self.copied_send_s)) {
            (Some(lent), Some(copied)) if lent < copied => &self.lent_send_s,
            _ => &self.copied_send_s,
        }
    }
}

/// Send size from which lending is cheaper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// UDP or TCP.
    pub transport: Transport,
    /// MTU of the device.
    pub mtu: u32,
    /// Threshold in bytes for sends that begin at a page boundary: the size at which the ratio of lending to
    /// copying falls below 1, interpolated between the measured sizes; null if lending is not proved cheaper
    /// at any size above which it is never proved more expensive.
    pub aligned_bytes: Option<u64>,
    /// Threshold for sends that begin elsewhere, measured 64 bytes before a page (until 2026-11-29, one byte).
    pub unaligned_bytes: Option<u64>,
    /// Measured sizes of sends that begin at a page boundary for which neither kind is proved cheaper.
    #[serde(default)]
    pub aligned_undecided: Vec<u64>,
    /// The same for sends that begin elsewhere.
    #[serde(default)]
    pub unaligned_undecided: Vec<u64>,
    /// True if the kernel copied all lent pages, so that both thresholds are null: it does so for a receiver
    /// on the same machine, and for devices without scatter-gather or checksum offload.
    pub kernel_copies: bool,
}
