//! Cost of moving data from sources to sinks: the stream service beside other methods.

use serde::{Deserialize, Serialize};

use super::{HandlerKind, Method, OrderKind, Part, Transport};

/// Bytes of a datagram of the part `udp-mirror`.
pub const DATAGRAM: u64 = 1316;

/// Cost of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayCost {
    /// The case.
    #[serde(flatten)]
    pub case: RelayCase,
    /// MTU of the device between the moving side and the sinks.
    pub mtu: u32,
    /// True if what arrived was compared, byte for byte, before it was timed.
    pub verified: bool,
    /// Runs, in the order they were made.
    pub runs: Vec<RelayRun>,
}

/// One method of a part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayCase {
    /// Part: `file-to-socket` and so on, as `wirepath assess relay --only` takes it.
    pub part: Part,
    /// Method.
    #[serde(rename = "way")]
    pub method: Method,
    /// True if every byte is touched on its way, by the paper's dummy handler.
    pub touch: bool,
    /// Bytes that are read at a time, of merges and of what spreads records the bytes of a record, of
    /// datagrams the bytes that arrive together; null where the method decides.
    pub block: Option<u64>,
    /// Connections at once, on the side that has several; of datagrams, receivers.
    pub links: u32,
    /// Connections beside these that carry nothing.
    pub idle: u32,
    /// Another handler than the dummy, or the same function in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<HandlerKind>,
    /// The order of inputs, if that is what is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderKind>,
}

/// One run. Processor time is that of the process that moves, with its children; those at the ends are
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayRun {
    /// Processor time in user space.
    pub user_s: f64,
    /// Processor time in the kernel.
    pub system_s: f64,
    /// Time on the wall, until the last byte arrived.
    pub wall_s: f64,
    /// Bytes that sources sent; of a file to several connections, once for each.
    pub bytes: u64,
    /// Bytes that arrived at all sinks together.
    pub delivered: u64,
}

impl RelayCase {
    /// Returns whether it is about datagrams.
    pub fn is_of_datagrams(&self) -> bool {
        self.part == Part::UdpMirror
    }

    /// Transport protocol.
    pub fn transport(&self) -> Transport {
        if self.is_of_datagrams() { Transport::Udp } else { Transport::Tcp }
    }

    /// Method in words, with all that tells it from others of its part.
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
        let one = if self.is_of_datagrams() { "receiver" } else { "link" };
        what += &format!(", {} {one}{}", self.links, if self.links == 1 { "" } else { "s" });
        if self.idle > 0 {
            what += &format!(" and {} idle", self.idle);
        }
        what
    }

    /// The same with part and block, by which no other case goes.
    pub fn label(&self) -> String {
        let block = self.block.map(|block| format!(", {}", wirepath_report::number::bytes(block)));
        format!("{} by {}{}", self.part, self.what(), block.unwrap_or_default())
    }
}

impl RelayCost {
    /// Processor seconds, run by run: for each GiB that sources sent, or for each datagram that was
    /// delivered.
    pub fn costs(&self) -> Vec<f64> {
        let cost = |run: &RelayRun| match self.case.is_of_datagrams() {
            true => run.cpu_s() / (run.delivered as f64 / DATAGRAM as f64),
            false => run.cpu_s() / (run.bytes as f64 / (1u64 << 30) as f64),
        };
        self.runs.iter().map(cost).filter(|cost| cost.is_finite()).collect()
    }

    /// Bytes that arrived in a second, run by run.
    pub fn rates(&self) -> Vec<f64> {
        let rates = self.runs.iter().map(|run| run.delivered as f64 / run.wall_s);
        rates.filter(|rate| rate.is_finite()).collect()
    }
}

impl RelayRun {
    /// User and system time.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}
