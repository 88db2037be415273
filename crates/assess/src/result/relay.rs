//! Cost of relaying data from sources to sinks: the stream service and other methods.

use serde::{Deserialize, Serialize};

use super::{HandlerKind, Method, OrderKind, Part, Transport};

/// Datagram size of the part `udp-mirror` in bytes.
pub const DATAGRAM: u64 = 1316;

/// Record size of the parts with an eBPF handler in bytes.
pub const RECORD: u64 = 1024;

/// Cost of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayCost {
    /// The case.
    #[serde(flatten)]
    pub case: RelayCase,
    /// MTU of the device between the moving side and the sinks.
    pub mtu: u32,
    /// True if the arrived data was compared byte for byte before timing.
    pub verified: bool,
    /// Runs, in the order they were made.
    pub runs: Vec<RelayRun>,
}

/// Case: one method in one part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayCase {
    /// Part; its name is an argument of `wirepath assess relay --only`.
    pub part: Part,
    /// Method.
    #[serde(rename = "way")]
    pub method: Method,
    /// True if the paper's dummy handler touches every byte.
    pub touch: bool,
    /// Bytes read at a time; in merges and in parts that distribute records, bytes of a record; for
    /// datagrams, bytes that arrive together. Null if the method decides.
    pub block: Option<u64>,
    /// Concurrent connections on the side that has several; for datagrams, receivers.
    pub links: u32,
    /// Additional connections that carry no data.
    pub idle: u32,
    /// Handler other than the dummy, or the same function in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<HandlerKind>,
    /// Order of inputs, if the case measures orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderKind>,
    /// Percentage of records that an eBPF handler passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u32>,
}

/// One run. Processor time is that of the process that moves data, with its children; sources and sinks run
/// in another process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayRun {
    /// Processor time in user space.
    pub user_s: f64,
    /// Processor time in the kernel.
    pub system_s: f64,
    /// Elapsed time until the last byte arrived.
    pub wall_s: f64,
    /// Bytes that sources sent; a file sent to several connections counts once per connection.
    pub bytes: u64,
    /// Bytes that arrived at all sinks.
    pub delivered: u64,
    /// With eBPF handlers: processor time of the source, the measured process, the sinks and all kernel threads,
    /// to which the kernel charges what it does for records in soft interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_s: Option<f64>,
    /// With eBPF handlers: time in which the processors were not idle. Compared with `tasks_s` it has other
    /// programs, and soft interrupts that are charged to them or to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_s: Option<f64>,
    /// With eBPF handlers of datagrams: datagrams that the measured process took from its socket; joined ones count once.
    /// Records that the kernel dropped or mirrored are not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<u64>,
}

impl RelayCase {
    /// Returns whether the case sends datagrams.
    pub fn is_of_datagrams(&self) -> bool {
        matches!(self.part, Part::UdpMirror | Part::KernelUdp | Part::KernelMirror)
    }

    /// Transport protocol.
    pub fn transport(&self) -> Transport {
        if self.is_of_datagrams() { Transport::Udp } else { Transport::Tcp }
    }

    /// Text of the method, with everything that distinguishes it within its part.
    pub fn what(&self) -> String {
        let mut what = self.method.to_string();
        if self.touch {
            what += ", touched";
        }
        if let Some(handler) = self.handler {
            what += &format!(", {handler}");
        }
        if let Some(order) = self.order {
            what += &format!(", {order}");
        }
        if let Some(passed) = self.passed {
            what += &format!(", {passed} % passed");
        }
        let one = if self.is_of_datagrams() { "receiver" } else { "link" };
        what += &format!(", {} {one}{}", self.links, if self.links == 1 { "" } else { "s" });
        if self.idle > 0 {
            what += &format!(" and {} idle", self.idle);
        }
        what
    }

    /// Unique text of the case: part, method and block.
    pub fn label(&self) -> String {
        let block = self.block.map(|block| format!(", {}", wirepath_report::number::bytes(block)));
        format!("{} by {}{}", self.part, self.what(), block.unwrap_or_default())
    }
}

impl RelayCost {
    /// Processor seconds, run by run: per GiB that sources sent, or per delivered datagram. With an eBPF handler,
    /// those of all that works for a record, per record that was sent.
    pub fn costs(&self) -> Vec<f64> {
        let cost = |run: &RelayRun| match self.case.is_of_datagrams() {
            _ if self.case.part.is_judged() => {
                run.tasks_s.unwrap_or(f64::NAN) / (run.bytes as f64 / RECORD as f64)
            }
            true => run.cpu_s() / (run.delivered as f64 / DATAGRAM as f64),
            false => run.cpu_s() / (run.bytes as f64 / (1u64 << 30) as f64),
        };
        self.runs.iter().map(cost).filter(|cost| cost.is_finite()).collect()
    }

    /// Processor seconds per record without those of the measured process, run by run, with an eBPF handler. Of the
    /// reference this is the cost of the source, up to the socket or the device that records come by.
    pub fn costs_of_others(&self) -> Vec<f64> {
        let process = self.runs.iter().map(|run| run.cpu_s() / (run.bytes as f64 / RECORD as f64));
        self.costs().into_iter().zip(process).map(|(cost, process)| cost - process).collect()
    }

    /// Bytes per second that arrived, run by run; none where nothing is sent on.
    pub fn rates(&self) -> Vec<f64> {
        let rates = self.runs.iter().map(|run| run.delivered as f64 / run.wall_s);
        rates.filter(|rate| rate.is_finite() && *rate > 0.0).collect()
    }
}

impl RelayRun {
    /// User and system time.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}
