//! The result of an assessment, as it is written to JSON.
//!
//! Raw figures of every run are kept; renderers compute medians, spreads and ratios ([`crate::statistics`]).
//! Times are in seconds, sizes in bytes, unless the name says another unit. A field that could not be
//! measured is null, and [`Assessment::left_out`] says why.

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
pub use loan::{Loan, LoanPoint, Threshold};
pub use relay::{DATAGRAM as RELAY_DATAGRAM, RelayCase, RelayCost, RelayRun};

pub use wirepath_datapath::LoanCounts as Loans;

use crate::statistics::Summary;
pub use crate::subject::{
    Experiment, HandlerKind, Method, OrderKind, Part, PathKind, PathVariant, Program, Transport, Variant,
};

/// Version of this schema. A reader takes no other.
pub const SCHEMA: &str = "wirepath-assessment/1";

/// Everything one run of `wirepath assess` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program and the commit that it was built from, with `-dirty` if its sources were
    /// changed since: `wirepath 0.1.0 (0123456789ab)`; `unknown` if it was not built from a checkout.
    pub program: String,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// Duration.
    pub seconds: f64,
    /// True if it was stopped before its end: by Ctrl-C, or by an error that [`Assessment::left_out`] names.
    pub partial: bool,
    /// Settings.
    pub settings: Settings,
    /// The machine.
    pub host: Host,
    /// Cost of entering the kernel and of copying.
    pub costs: Option<Costs>,
    /// Cost of every data path, size and transport; also for those of the `loan` experiment.
    pub measurements: Vec<Measurement>,
    /// Profile of each path.
    pub profiles: Vec<Profile>,
    /// The page loan.
    pub loan: Option<Loan>,
    /// Moving data from sources to sinks; empty in results that are older than this field.
    #[serde(default)]
    pub relay: Vec<RelayCost>,
    /// Kernel calls and copies of the paths in the papers' tables; empty in results that are older than this
    /// field.
    #[serde(default)]
    pub counts: Vec<Counted>,
    /// Cost of the data paths of `wirepath serve` in its own trains, which its choice goes by. None where
    /// streams were not measured, on sinks that stand for no device, and in results that are older than this
    /// field.
    #[serde(default)]
    pub server: Option<Calibration>,
    /// Parts that were not measured, and why.
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
    /// True if it was the quick form.
    pub quick: bool,
    /// Destination of packets: `drop`, `drop-nooffload`, `loopback`, `veth` or a host.
    pub sink: String,
    /// MTU of the sink's device.
    pub mtu: u32,
    /// True if files were read from the page cache or from storage.
    pub cache: Cache,
    /// The processor that measured work was pinned to.
    pub cpu: Option<u32>,
}

/// Location of the payload before it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Page cache.
    Warm,
    /// On storage.
    Cold,
}

/// One data path, with one size, to one sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// `stream`, `download` or `loan`.
    pub experiment: Experiment,
    /// The data path in its variant.
    pub path: PathVariant,
    /// UDP or TCP.
    pub transport: Transport,
    /// Payload bytes of a packet (UDP) or of a call (TCP); null for the whole file in one call. With `loan`,
    /// of a call.
    pub size: Option<u64>,
    /// Most packets in one call.
    pub packets_per_train: u32,
    /// MTU of the sink's device.
    pub mtu: u32,
    /// True if what it sends was received and compared, byte for byte, before it was timed. Bare loops are
    /// not.
    pub verified: bool,
    /// Kernel calls for each packet (UDP) or for each block of the size (TCP), counted; null where they
    /// cannot be.
    pub calls_per_packet: Option<f64>,
    /// The same by tables 3 and 4 of the papers; null for paths that they do not have, and in results that
    /// are older than this field.
    #[serde(default)]
    pub calls_in_papers: Option<u32>,
    /// Runs, in the order they were made.
    pub runs: Vec<Run>,
}

impl Measurement {
    /// Processor seconds for each GiB, of all runs together.
    pub fn cost(&self) -> Option<Summary> {
        Summary::of(self.runs.iter().map(Run::cpu_s_per_gib).filter(|cost| cost.is_finite()))
    }

    /// The share of the path's time that goes into copying, by the profile of the same experiment, path,
    /// transport and size. Nothing where none was taken; those of bare loops are not.
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

/// One run of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Processor time in user space.
    pub user_s: f64,
    /// Processor time in the kernel.
    pub system_s: f64,
    /// Time on the wall.
    pub wall_s: f64,
    /// Payload bytes sent.
    pub bytes: u64,
    /// Packets sent (UDP) or calls' blocks (TCP).
    pub packets: u64,
    /// Sends that failed and were not made again; with `loan`, sends that the kernel refused for want of room
    /// and that were then made again.
    pub errors: u64,
    /// Zero-copy sends, by MSG_ZEROCOPY or an io_uring, that the kernel turned into copies; null where the
    /// path makes none, or the kernel does not say (io_uring before Linux 6.2).
    pub copied: Option<u64>,
    /// Loans; null where the path lends nothing, and for paths of a ring, which only count copies.
    pub loans: Option<Loans>,
}

impl Assessment {
    /// Marks it as stopped before its end, and records what is missing and why.
    pub fn stopped(&mut self, what: &str, why: &dyn fmt::Display) {
        self.partial = true;
        self.left_out.push(LeftOut { what: what.to_owned(), why: why.to_string() });
    }

    /// Sustained bytes per second of a size of the loan, run by run, with copies and with loans; of the
    /// second nothing where nothing was lent. Where a result has not the runs, there is the one median that
    /// the point has.
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
    /// User and system seconds for each GiB of payload.
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
    /// Samples that the kernel had no room for.
    pub lost: u64,
    /// The functions that cost most, most first; five of them.
    pub functions: Vec<FunctionShare>,
    /// Share of samples in functions that copy payload.
    pub copying: f64,
    /// Share of samples in entering and leaving the kernel.
    pub entering: f64,
    /// Share of samples in the network stack.
    pub network: f64,
    /// Share of samples in user space.
    pub user: f64,
}

/// A function and its share.
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
    /// The experiment, or the path, size and transport.
    pub what: String,
    /// Why, and how it could be.
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
