//! Result of an assessment, as written to JSON.
//!
//! Raw figures of every run are kept; renderers compute medians, spreads and ratios ([`crate::statistics`]).
//! Times are in seconds and sizes in bytes, unless the name has another unit. A field that could not be
//! measured is null, and [`Assessment::left_out`] has the reason.

mod count;
mod finite;
mod host;
mod json;
mod loan;
mod relay;

use std::fmt;

use serde::{Deserialize, Serialize};
use wirepath_datapath::calibration::Calibration;

pub use count::{Copies, Counted};
pub use host::{Advice, CopyCost, Costs, Device, Feature, Host, PathState, Rings, Setting};
pub(crate) use json::read;
pub use json::{ReadError, WriteError};
pub use loan::{Loan, LoanPoint, QueuePoint, QueueRun, QueuedSend, Threshold};
pub use relay::{DATAGRAM as RELAY_DATAGRAM, RECORD as RELAY_RECORD, RelayCase, RelayCost, RelayRun};

pub use wirepath_datapath::LoanCounts as Loans;

use crate::statistics::Summary;
pub use crate::subject::{
    Experiment, HandlerKind, Method, OrderKind, Part, PathKind, PathVariant, Program, Transport, Variant,
};

/// Version of this schema. Readers accept no other version.
pub const SCHEMA: &str = "wirepath-assessment/1";

/// Result of one run of `wirepath assess`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program and the commit that it was built from, with `-dirty` if sources were changed:
    /// `wirepath 0.1.0 (0123456789ab)`; `unknown` if it was not built from a checkout.
    pub program: String,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    /// Duration.
    pub seconds: f64,
    /// True if the run was stopped before its end: by Ctrl-C, or by an error recorded in
    /// [`Assessment::left_out`].
    pub partial: bool,
    /// Settings.
    pub settings: Settings,
    /// The machine.
    pub host: Host,
    /// Cost of kernel entry and of copying.
    pub costs: Option<Costs>,
    /// Cost of every data path, size and transport, those of the `loan` experiment included.
    pub measurements: Vec<Measurement>,
    /// Profile of each path.
    pub profiles: Vec<Profile>,
    /// Page loan.
    pub loan: Option<Loan>,
    /// Relay of data from sources to sinks; empty in results older than this field.
    #[serde(default)]
    pub relay: Vec<RelayCost>,
    /// Kernel calls and copies of the paths in the papers' tables; empty in results older than this field.
    #[serde(default)]
    pub counts: Vec<Counted>,
    /// Costs of the data paths of `wirepath serve` with its own trains, by which the server chooses a path.
    /// `None` if streams were not measured, on sinks that stand for no device, and in results older than this
    /// field.
    #[serde(default)]
    pub server: Option<Calibration>,
    /// Parts that were not measured, with reasons.
    pub left_out: Vec<LeftOut>,
}

/// Settings of an assessment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Experiments, by the names of the sub-commands.
    pub experiments: Vec<Experiment>,
    /// Payload bytes of each run.
    pub volume: u64,
    /// Runs of each measurement.
    pub runs: u32,
    /// True for the quick form.
    pub quick: bool,
    /// Destination of packets: `drop`, `drop-nooffload`, `loopback`, `veth` or a host.
    pub sink: String,
    /// Other end of measured connections; null if none was measured, and in results older than this
    /// field, whose connections had a receiver. Costs with different ones cannot be compared.
    #[serde(default)]
    pub tcp_peer: Option<TcpPeer>,
    /// MTU of the sink's device.
    pub mtu: u32,
    /// State of the page cache: files are sent from it or from storage.
    pub cache: Cache,
    /// Processor that measured work was pinned to.
    pub cpu: Option<u32>,
}

/// Other end of measured connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TcpPeer {
    /// Device that drops and acknowledges all data.
    Device,
    /// Process that receives: a part of its cost is the sender's if it is on the same machine.
    Receiver,
    /// Both, for different MTUs: the device could not be created for each.
    Both,
}

impl fmt::Display for TcpPeer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            TcpPeer::Device => "a device that drops and acknowledges",
            TcpPeer::Receiver => "a receiver",
            TcpPeer::Both => "a device that drops and acknowledges, and a receiver for another MTU",
        })
    }
}

/// Location of the payload before sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Page cache.
    Warm,
    /// On storage.
    Cold,
}

/// Measurement of one data path, with one size, to one sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// `stream`, `download` or `loan`.
    pub experiment: Experiment,
    /// Data path in its variant.
    pub path: PathVariant,
    /// UDP or TCP.
    pub transport: Transport,
    /// Payload bytes of a packet, or of a call (`download` over TCP); null for the whole file in one call. For
    /// `loan`, bytes of a call.
    pub size: Option<u64>,
    /// Largest number of packets in one call.
    pub packets_per_train: u32,
    /// MTU of the sink's device.
    pub mtu: u32,
    /// True if the sent data was received and compared byte for byte before timing. Bare loops are not
    /// verified.
    pub verified: bool,
    /// Counted kernel calls per packet, or per block of the size (`download` over TCP); null if calls cannot be
    /// counted.
    pub calls_per_packet: Option<f64>,
    /// Calls per packet by tables 3 and 4 of the papers; null for paths that these tables do not have, as those
    /// of `stream` over TCP, and in results older than this field.
    #[serde(default)]
    pub calls_in_papers: Option<u32>,
    /// Runs, in the order they were made.
    pub runs: Vec<Run>,
}

impl Measurement {
    /// Processor seconds per GiB, summary of all runs.
    pub fn cost(&self) -> Option<Summary> {
        Summary::of(self.runs.iter().map(Run::cpu_s_per_gib).filter(|cost| cost.is_finite()))
    }

    /// Share of the path's time that is spent on copying, from the profile of the same experiment, path,
    /// transport and size. `None` without such a profile; bare loops have no profile.
    pub fn copying(&self, profiles: &[Profile]) -> Option<f64> {
        let of_same = |profile: &&Profile| {
            (profile.experiment, profile.path, profile.transport, profile.size)
                == (self.experiment, self.path.kind, self.transport, self.size)
        };
        if self.path.variant != Variant::Plain {
            return None;
        }
        profiles.iter().find(of_same).map(|profile| profile.shares.copying)
    }
}

/// Run of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Processor time in user space.
    pub user_s: f64,
    /// Processor time in the kernel.
    pub system_s: f64,
    /// Elapsed time.
    pub wall_s: f64,
    /// Payload bytes sent.
    pub bytes: u64,
    /// Packets sent, or blocks sent (`download` over TCP).
    pub packets: u64,
    /// Failed sends that were not retried; for `loan`, sends that the kernel refused because of full buffers,
    /// and that were retried.
    pub errors: u64,
    /// Zero-copy sends, by MSG_ZEROCOPY or an io_uring, that the kernel turned into copies; null if the path
    /// makes no zero-copy sends, or the kernel does not report copies (io_uring before Linux 6.2).
    pub copied: Option<u64>,
    /// Loans; null if the path lends nothing, and for paths of a ring, which only count copies.
    pub loans: Option<Loans>,
}

impl Assessment {
    /// Other end of measured connections; `None` if none was measured.
    pub fn tcp_peer(&self) -> Option<TcpPeer> {
        let is_tcp = |measurement: &Measurement| measurement.transport == Transport::Tcp;
        let before = || self.measurements.iter().any(is_tcp).then_some(TcpPeer::Receiver);
        self.settings.tcp_peer.or_else(before)
    }

    /// Marks the result as stopped before its end, and records the missing part and the reason.
    pub fn stopped(&mut self, what: &str, why: &dyn fmt::Display) {
        self.partial = true;
        self.left_out.push(LeftOut { what: what.to_owned(), why: why.to_string() });
    }

    /// Sustained bytes per second of a loan size, run by run, with copies and with loans; the second list is
    /// empty if nothing was lent. If the result has no runs, a list has only the median of the point.
    pub fn sustained(&self, point: &LoanPoint) -> (Vec<f64>, Vec<f64>) {
        let of = |lent: bool, median: Option<f64>| -> Vec<f64> {
            let path = PathVariant::send(lent, point.aligned);
            let is_it = |measurement: &&Measurement| {
                measurement.experiment == Experiment::Loan
                    && measurement.path == path
                    && (measurement.transport, measurement.mtu) == (point.transport, point.mtu)
                    && measurement.size == Some(point.size)
            };
            let runs = self.measurements.iter().find(is_it).map_or(&[][..], |measurement| &measurement.runs);
            let rates = runs.iter().map(|run| run.bytes as f64 / run.wall_s).filter(|rate| rate.is_finite());
            let rates: Vec<f64> = rates.collect();
            match median {
                Some(median) if rates.is_empty() => vec![median],
                Some(_) => rates,
                None => Vec::new(),
            }
        };
        (of(false, Some(point.copied_throughput)), of(true, point.lent_throughput))
    }
}

impl Run {
    /// User and system seconds per GiB of payload.
    pub fn cpu_s_per_gib(&self) -> f64 {
        (self.user_s + self.system_s) / (self.bytes as f64 / (1u64 << 30) as f64)
    }
}

/// Profile of a path (table 1 of the papers).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// `stream` or `download`.
    pub experiment: Experiment,
    /// The data path.
    pub path: PathKind,
    /// UDP or TCP.
    pub transport: Transport,
    /// Payload bytes of a packet, as in [`Measurement::size`].
    pub size: Option<u64>,
    /// Shares of the samples.
    #[serde(flatten)]
    pub shares: Shares,
}

/// Shares of the samples of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Samples taken.
    pub samples: u64,
    /// Samples lost because the kernel had no room for them.
    pub lost: u64,
    /// The five most expensive functions, most expensive first.
    pub functions: Vec<FunctionShare>,
    /// Share of samples in functions that copy payload.
    pub copying: f64,
    /// Share of samples in kernel entry and exit.
    pub entering: f64,
    /// Share of samples in the network stack.
    pub network: f64,
    /// Share of samples in user space.
    pub user: f64,
}

/// Function and its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionShare {
    /// Name of a kernel function, or of the program.
    pub function: String,
    /// Share of samples.
    pub share: f64,
}

/// Part that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Experiment, or path, size and transport.
    pub what: String,
    /// Reason, and remedy.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The report shows the share of copying for each path, from its profile.
    #[test]
    fn the_share_of_copying_is_that_of_the_same_path_transport_and_size() {
        let result = crate::example::full();
        let profile = result.profiles.iter().find(|profile| profile.path.name() == "read_writev").unwrap();
        let measurement = |path: &str, size| {
            let mut all = result.measurements.iter();
            all.find(|one| {
                one.path.to_string() == path && one.size == size && one.experiment == Experiment::Stream
            })
            .unwrap()
        };
        let copying = |measurement: &Measurement| measurement.copying(&result.profiles);
        assert_eq!(copying(measurement("read_writev", Some(1460))), Some(profile.shares.copying));
        assert_eq!(copying(measurement("read_writev", Some(512))), None);
        assert_eq!(copying(measurement("bare:read_writev", Some(1460))), None);
    }
}
