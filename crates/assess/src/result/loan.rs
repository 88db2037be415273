//! Page loans in a result.

use serde::{Deserialize, Serialize};

use super::Transport;

/// The page loan against the copy (figures 1 to 6 of the zero-copy protocol paper).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loan {
    /// One point for each size, alignment, MTU and transport. The runs that they summarise are measurements.
    pub points: Vec<LoanPoint>,
    /// Thresholds by MTU and transport; none where too little is known.
    pub thresholds: Vec<Threshold>,
}

/// Cost of sends of one size. A send is one call: over UDP one train of datagrams that fill the MTU, the same
/// whether it is copied or lent; over TCP so many bytes of the connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoanPoint {
    /// Bytes of a send.
    pub size: u64,
    /// MTU of the device.
    pub mtu: u32,
    /// UDP or TCP.
    pub transport: Transport,
    /// True if each send begins where a page does; else each begins one byte before, and so has a part of one
    /// page more.
    pub aligned: bool,
    /// Processor seconds of copying alone, out of no cache, a send, run by run (t1 of the paper).
    pub copy_s: Vec<f64>,
    /// Processor seconds of a send that copies, run by run (t1 + t2).
    pub copied_send_s: Vec<f64>,
    /// Processor seconds of a send that lends, with taking the loan back, run by run; empty where lending
    /// does not work, or where the kernel made copies of what was lent.
    pub lent_send_s: Vec<f64>,
    /// Sustained bytes per second on the wall with copies, the median of the runs.
    pub copied_throughput: f64,
    /// The same with loans; null where `lent_send_s` is empty.
    pub lent_throughput: Option<f64>,
    /// Sends that the kernel refused for want of room (ENOBUFS, EAGAIN) in all runs, with copies; each was
    /// made again.
    pub copied_errors: u64,
    /// As `copied_errors`, with loans.
    pub lent_errors: u64,
}

/// Size of a send from which on lending is cheaper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// UDP or TCP.
    pub transport: Transport,
    /// MTU of the device.
    pub mtu: u32,
    /// Bytes of a send that begins where a page does: the least size that was measured from which on all that
    /// were measured, noisy ones aside, are cheaper lent by a tenth, in processor time, by the medians; null
    /// if the largest is not.
    pub aligned_bytes: Option<u64>,
    /// The same of a send that begins elsewhere, measured one byte before a page.
    pub unaligned_bytes: Option<u64>,
    /// True if the kernel copied whatever was lent, so that both are null: it does for a receiver on the same
    /// machine, and for devices that cannot gather or compute checksums.
    pub kernel_copies: bool,
}
