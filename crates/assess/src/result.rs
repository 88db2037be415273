//! The result of an assessment, as it is written to JSON.
//!
//! Raw figures of every run are kept; medians, spreads and ratios are computed by whoever shows them
//! ([`crate::statistics`]). Times are in seconds, sizes in bytes, unless the name says another unit. A field that could not be
//! measured is null, and [`Assessment::left_out`] says why.

mod count;
mod finite;
mod relay;

use std::fmt;

use serde::{Deserialize, Serialize};
use wirepath_datapath::LoanCounts;
use wirepath_datapath::calibration::Calibration;

pub use count::{Copies, Counted};
pub use relay::{DATAGRAM as RELAY_DATAGRAM, RelayCost, RelayRun};

/// Version of this schema. A reader takes no other.
pub const SCHEMA: &str = "wirepath-assessment/1";

/// Everything one run of `wirepath assess` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program and the commit that it was built from, with `-dirty` if its sources were changed since: `wirepath
    /// 0.1.0 (0123456789ab)`; `unknown` if it was not built from a checkout.
    pub program: String,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// How long it took.
    pub seconds: f64,
    /// Whether it was stopped before its end: by Ctrl-C, or by an error that [`Assessment::left_out`] names.
    pub partial: bool,
    /// What was asked for.
    pub settings: Settings,
    /// The machine.
    pub host: Host,
    /// Cost of entering the kernel and of copying.
    pub costs: Option<Costs>,
    /// Cost of every data path, size and transport; also for those of the `loan` experiment.
    pub measurements: Vec<Measurement>,
    /// Where each path spends its time.
    pub profiles: Vec<Profile>,
    /// The page loan.
    pub loan: Option<Loan>,
    /// Moving data from sources to sinks; empty in results that are older than this field.
    #[serde(default)]
    pub relay: Vec<RelayCost>,
    /// Kernel calls and copies of the paths in the papers' tables; empty in results that are older than this field.
    #[serde(default)]
    pub counts: Vec<Counted>,
    /// What the data paths of `wirepath serve` cost in its own trains, which its choice goes by. None where streams were not measured, on
    /// sinks that stand for no device, and in results that are older than this field.
    #[serde(default)]
    pub server: Option<Calibration>,
    /// What was not measured, and why.
    pub left_out: Vec<LeftOut>,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Experiments, by the names of the sub-commands.
    pub experiments: Vec<String>,
    /// Payload bytes of each run.
    pub volume: u64,
    /// Runs of each measurement.
    pub runs: u32,
    /// Whether it was the quick form.
    pub quick: bool,
    /// Where packets go: `drop`, `drop-nooffload`, `loopback`, `veth` or a host.
    pub sink: String,
    /// MTU of the sink's device.
    pub mtu: u32,
    /// Whether files were read from the page cache or from storage.
    pub cache: Cache,
    /// The processor that measured work was pinned to.
    pub cpu: Option<u32>,
}

/// Where the payload was before it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// In the page cache.
    Warm,
    /// On storage.
    Cold,
}

/// The machine, and what it lacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release, as `uname -r` says.
    pub kernel: String,
    /// Processor, as /proc/cpuinfo names it.
    pub processor: String,
    /// Processors that may be used.
    pub processors: u32,
    /// Memory.
    pub memory: u64,
    /// Network devices.
    pub devices: Vec<Device>,
    /// Limits, kernel settings and privileges that matter, by name.
    pub limits: Vec<Setting>,
    /// Which data paths run here.
    pub paths: Vec<PathState>,
    /// What could be better, and how.
    pub advice: Vec<Advice>,
    /// Load averages when it began.
    pub load: String,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Driver, where it says.
    pub driver: Option<String>,
    /// Whether it is up.
    pub up: bool,
    /// MTU.
    pub mtu: u32,
    /// Speed in Mb/s, where it says.
    pub speed_mbps: Option<u32>,
    /// Sizes of its rings, where it says.
    pub rings: Option<Rings>,
    /// Features that data paths need, by ethtool's names, and whether they are on.
    pub features: Vec<Feature>,
}

/// Rings of a device, in descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// For packets to be sent.
    pub transmit: u32,
    /// The most that may be set for packets to be sent.
    pub transmit_most: u32,
    /// For received packets.
    pub receive: u32,
    /// The most that may be set for received packets.
    pub receive_most: u32,
}

/// A feature of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// ethtool's name, for example `tx-udp-segmentation`.
    pub name: String,
    /// Whether it is on.
    pub on: bool,
    /// Whether it can be switched; what cannot, ethtool shows as fixed.
    pub changeable: bool,
}

/// A limit or kernel setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name, for example `net.core.wmem_max`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Whether a data path runs here, found by sending with it over the loopback device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    /// `download` or `stream`.
    pub experiment: String,
    /// The data path.
    pub path: String,
    /// UDP or TCP.
    pub transport: Transport,
    /// Whether what was sent arrived, byte for byte.
    pub runs: bool,
    /// What is missing, or why it does less than it could; null if nothing is.
    pub missing: Option<String>,
    /// How to get what is missing.
    pub remedy: Option<String>,
}

/// What could be better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// What was found.
    pub finding: String,
    /// What it costs, and which data paths.
    pub consequence: String,
    /// The command or setting that mends it.
    pub remedy: String,
}

/// What the machine charges for the two things that data paths try to avoid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Nanoseconds of a `getpid` call, run by run.
    pub kernel_entry_ns: Vec<f64>,
    /// `memcpy` by size (figure 2 of the conference paper).
    pub copies: Vec<CopyCost>,
}

/// Cost of copying blocks of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyCost {
    /// Bytes copied at a time.
    pub size: u64,
    /// Whether source and target begin at the boundaries of cache lines (from a page on: of pages), or one byte and three behind
    /// them.
    pub aligned: bool,
    /// Whether the same block is copied again and again (from the processor's caches), or ever other ones.
    pub cached: bool,
    /// Nanoseconds of one copy, run by run.
    pub ns: Vec<f64>,
}

/// One data path, with one size, to one sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// `download`, `stream` or `loan`.
    pub experiment: String,
    /// The data path. A bare C loop doing the same is `bare:` and the path's name; behind the name of a path that takes runs, `:single`
    /// says that its packets left by themselves. The sends of `loan` are `loan:copy` and
    /// `loan:lend`, with `:unaligned` behind them where they begin inside a page.
    pub path: String,
    /// UDP or TCP.
    pub transport: Transport,
    /// Payload bytes of a packet (UDP) or of a call (TCP); null for the whole file in one call. With `loan`, of a call.
    pub size: Option<u64>,
    /// Most packets in one call.
    pub packets_per_train: u32,
    /// MTU of the sink's device.
    pub mtu: u32,
    /// Whether what it sends was received and compared, byte for byte, before it was timed. Bare loops are not.
    pub verified: bool,
    /// Kernel calls for each packet (UDP) or for each block of the size (TCP), counted; null where they cannot be.
    pub calls_per_packet: Option<f64>,
    /// What tables 3 and 4 of the papers say of that; null for paths that they do not have, and in results that are older than this
    /// field.
    #[serde(default)]
    pub calls_in_papers: Option<u32>,
    /// Runs, in the order they were made.
    pub runs: Vec<Run>,
}

impl Measurement {
    /// The share of the path's time that goes into copying, by the profile of the same experiment, path, transport and size.
    /// Nothing where none was taken; those of bare loops are not.
    pub fn copying(&self, profiles: &[Profile]) -> Option<f64> {
        let of_same = |profile: &&Profile| {
            (&profile.experiment, &profile.path, profile.transport, profile.size)
                == (&self.experiment, &self.path, self.transport, self.size)
        };
        profiles.iter().find(of_same).map(|profile| profile.copying)
    }
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
        })
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
    /// Sends that failed and were not made again; with `loan`, sends that the kernel refused for want of room and that were then
    /// made again.
    pub errors: u64,
    /// Zero-copy sends, by MSG_ZEROCOPY or an io_uring, that the kernel turned into copies; null where the path makes none, or
    /// the kernel does not say (io_uring before Linux 6.2).
    pub copied: Option<u64>,
    /// What was lent; null where the path lends nothing, and for paths of a ring, which only count what was copied.
    pub loans: Option<Loans>,
}

/// What the sends of one run lent and what they copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loans {
    /// Sends that lent their pages to the kernel.
    pub loans: u64,
    /// Sends that were copied: by choice, or because nothing more could be lent at the moment.
    pub copies: u64,
    /// Loans that the kernel turned into copies.
    pub copied_by_kernel: u64,
    /// Most loans that were not back at a time.
    pub outstanding_most: u64,
}

impl From<LoanCounts> for Loans {
    fn from(counts: LoanCounts) -> Loans {
        let LoanCounts { loans, copies, copied_by_kernel, outstanding_most, .. } = counts;
        Loans { loans, copies, copied_by_kernel, outstanding_most }
    }
}

impl Assessment {
    /// Marks it as stopped before its end, and says what of it is not there and why.
    pub fn stopped(&mut self, what: &str, why: &dyn fmt::Display) {
        self.partial = true;
        self.left_out.push(LeftOut { what: what.to_owned(), why: why.to_string() });
    }

    /// Sustained bytes per second of a size of the loan, run by run, with copies and with loans; of the second nothing where
    /// nothing was lent. Where a result has not the runs, there is the one median that the point has.
    pub fn sustained(&self, point: &LoanPoint) -> (Vec<f64>, Vec<f64>) {
        let of = |path: &str, median: Option<f64>| -> Vec<f64> {
            let path = format!("{path}{}", if point.aligned { "" } else { ":unaligned" });
            let is_it = |measurement: &&Measurement| {
                measurement.experiment == "loan"
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
        (of("loan:copy", Some(point.copied_throughput)), of("loan:lend", point.lent_throughput))
    }
}

impl Run {
    /// User and system seconds for each GiB of payload.
    pub fn cpu_s_per_gib(&self) -> f64 {
        (self.user_s + self.system_s) / (self.bytes as f64 / (1u64 << 30) as f64)
    }
}

/// Where a path spends its time (table 1 of the papers).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// `download` or `stream`.
    pub experiment: String,
    /// The data path.
    pub path: String,
    /// UDP or TCP.
    pub transport: Transport,
    /// Payload bytes of a packet, as in [`Measurement::size`].
    pub size: Option<u64>,
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

/// The page loan against the copy (figures 1 to 6 of the zero-copy protocol paper).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loan {
    /// One point for each size, alignment, MTU and transport. The runs that they summarise are measurements.
    pub points: Vec<LoanPoint>,
    /// From which size of a send on lending is cheaper, by MTU and transport. Those of which too little is known have none.
    pub thresholds: Vec<Threshold>,
}

/// What sends of one size cost. A send is one call: over UDP one train of datagrams that fill the MTU, the same whether it is
/// copied or lent; over TCP so many bytes of the connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoanPoint {
    /// Bytes of a send.
    pub size: u64,
    /// MTU of the device.
    pub mtu: u32,
    /// UDP or TCP.
    pub transport: Transport,
    /// Whether each send begins where a page does; else each begins one byte before, and so has a part of one page more.
    pub aligned: bool,
    /// Processor seconds of copying alone, out of no cache, a send, run by run (t1 of the paper).
    pub copy_s: Vec<f64>,
    /// Processor seconds of a send that copies, run by run (t1 + t2).
    pub copied_send_s: Vec<f64>,
    /// Processor seconds of a send that lends, with taking the loan back, run by run; empty where lending does not work, or
    /// where the kernel made copies of what was lent.
    pub lent_send_s: Vec<f64>,
    /// Sustained bytes per second on the wall with copies, the median of the runs.
    pub copied_throughput: f64,
    /// The same with loans; null where `lent_send_s` is empty.
    pub lent_throughput: Option<f64>,
    /// Sends that the kernel refused for want of room (ENOBUFS, EAGAIN) in all runs, with copies; each was made again.
    pub copied_errors: u64,
    /// As `copied_errors`, with loans.
    pub lent_errors: u64,
}

/// Where lending begins to be cheaper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// UDP or TCP.
    pub transport: Transport,
    /// MTU of the device.
    pub mtu: u32,
    /// Bytes of a send that begins where a page does: the least size that was measured from which on all that were measured, noisy
    /// ones aside, are cheaper lent by a tenth, in processor time, by the medians; null if the largest is not.
    pub aligned_bytes: Option<u64>,
    /// The same of a send that begins elsewhere, measured one byte before a page.
    pub unaligned_bytes: Option<u64>,
    /// Whether the kernel copied whatever was lent, so that both are null: it does for a receiver on the same machine, and for
    /// devices that cannot gather or compute checksums.
    pub kernel_copies: bool,
}

/// Something that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The experiment, or the path, size and transport.
    pub what: String,
    /// Why, and how it could be.
    pub why: String,
}

/// Why a text is no result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is JSON of another schema.
    #[error(
        "this is a result of schema {found:?}, and this version reads {SCHEMA:?}: use the version of wirepath that wrote it, or assess again"
    )]
    OtherSchema {
        /// What it says it is.
        found: String,
    },
    /// It is not a result at all, or a damaged one.
    #[error("this is no result of `wirepath assess`: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Why a result cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// JSON has no word for a figure, which is named.
    #[error("a figure is no number: {0}")]
    NotFinite(String),
    /// The writer says so.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl Assessment {
    /// Reads a result.
    ///
    /// # Errors
    /// [`ReadError`] for text that is none, or of another version.
    pub fn from_json(text: &str) -> Result<Assessment, ReadError> {
        /// The one field that every version has.
        #[derive(Deserialize)]
        struct AnySchema {
            schema: String,
        }
        let AnySchema { schema } = serde_json::from_str(text)?;
        if schema != SCHEMA {
            return Err(ReadError::OtherSchema { found: schema });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// The result as JSON, with a newline at its end.
    ///
    /// # Errors
    /// [`WriteError::NotFinite`] for a figure that is infinite or not a number: as null it could not be read back.
    pub fn to_json(&self) -> Result<String, WriteError> {
        if let Some(figure) = self.not_finite() {
            return Err(WriteError::NotFinite(figure));
        }
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_copying_is_that_of_the_same_path_transport_and_size() {
        let result = crate::example::full();
        let profile = result.profiles.iter().find(|profile| profile.path == "read_writev").unwrap();
        let measurement = |path: &str, size| {
            let mut all = result.measurements.iter();
            all.find(|one| one.path == path && one.size == size && one.experiment == "stream").unwrap()
        };
        let copying = |measurement: &Measurement| measurement.copying(&result.profiles);
        assert_eq!(copying(measurement("read_writev", Some(1460))), Some(profile.copying));
        assert_eq!(copying(measurement("read_writev", Some(512))), None);
        assert_eq!(copying(measurement("bare:read_writev", Some(1460))), None);
    }

    #[test]
    fn another_schema_and_no_schema_are_told_apart() {
        let other = Assessment::from_json(r#"{"schema": "wirepath-assessment/99"}"#).unwrap_err();
        assert!(
            matches!(&other, ReadError::OtherSchema { found } if found == "wirepath-assessment/99"),
            "{other}"
        );
        for text in ["", "{}", "[1]", r#"{"schema": "wirepath-assessment/1"}"#] {
            assert!(matches!(Assessment::from_json(text), Err(ReadError::Malformed(_))), "{text}");
        }
    }
}
