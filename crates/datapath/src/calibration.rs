//! Calibrations: measured costs of data paths on this machine, kept in a file.

mod file;
mod loans;

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use wirepath_media::image::MAX_TRAIN_PACKETS;

pub use loans::{LoanThreshold, Transport};

use crate::DataPath;

/// Packets in the trains by which paths are chosen: those of a stream of 4 Mb/s in bursts of 20 ms.
pub const USUAL_TRAIN: u32 = 8;

/// Size of measured packets: seven packets of a transport stream and a header.
pub const PACKET_SIZE: u16 = 1328;

/// Costs of paths on one machine and kernel, one kind of device and one MTU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The machine and its kernel.
    pub host: Host,
    /// The device on which it was measured, or the kind of device.
    pub device: DeviceKind,
    /// MTU in bytes.
    pub mtu: u32,
    /// Method of measurement.
    pub origin: String,
    /// Time of the measurement, in seconds since 1970 (UTC).
    #[serde(default)]
    pub unix_s: u64,
    /// Costs of the paths.
    pub costs: Vec<PathCost>,
}

/// Identity of a machine, so that a copied file is not used on another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Release of the kernel, as in `uname -r`.
    pub kernel: String,
    /// Name of the processor, or of its architecture if the processor has none.
    pub processor: String,
    /// Number of processors.
    pub processors: usize,
}

impl Host {
    /// This one.
    pub fn this() -> Host {
        let name = rustix::system::uname();
        let in_words = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        // A kernel file that lists every processor; the first one is at its start.
        let described = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = described.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Host {
            kernel: in_words(name.release()),
            processor: model.map_or_else(|| in_words(name.machine()), |(_, model)| model.to_owned()),
            // All processors, not only those of this thread: a measuring thread is restricted to one.
            processors: described.lines().filter(|line| line.starts_with("processor")).count().max(1),
        }
    }
}

/// This time, in the form of calibrations.
pub fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Devices that cost the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// The one of this name.
    Named(String),
    /// All devices that compute checksums on transmission.
    WithChecksums,
    /// All that do not.
    WithoutChecksums,
}

/// Cost of one path with trains of one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathCost {
    /// Name of the path.
    pub path: String,
    /// Packets of [`PACKET_SIZE`] bytes in a train.
    pub packets_per_train: u32,
    /// True if the headers were per-session, false if they were stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_headers: bool,
    /// User and system time, the median of all rounds.
    pub cpu_ns_per_packet: f64,
}

/// Processor time of a train: a fixed cost, and a cost of each packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainCost {
    train_ns: f64,
    packet_ns: f64,
}

impl TrainCost {
    /// Cost of trains whose packets cost the same, however many there are.
    pub fn of_packets(packet_ns: f64) -> TrainCost {
        TrainCost { train_ns: 0.0, packet_ns }
    }

    /// Cost of trains that was measured at two lengths, in nanoseconds for each packet.
    fn between(shorter: (u32, f64), longer: (u32, f64)) -> TrainCost {
        let train_ns = |(packets, ns): (u32, f64)| f64::from(packets) * ns;
        let packet_ns = (train_ns(longer) - train_ns(shorter)) / f64::from(longer.0 - shorter.0);
        let packet_ns = packet_ns.clamp(0.0, shorter.1);
        TrainCost { train_ns: train_ns((shorter.0, shorter.1 - packet_ns)), packet_ns }
    }

    /// Nanoseconds of a packet if so many packets are sent at a time, in as few trains as possible.
    pub fn ns_per_packet(self, packets: f64) -> f64 {
        let packets = packets.max(1.0);
        let trains = (packets / f64::from(MAX_TRAIN_PACKETS)).ceil();
        self.packet_ns + self.train_ns * trains / packets
    }
}

impl Calibration {
    /// Cost in nanoseconds of a packet in trains of [`USUAL_TRAIN`], with stored or per-session headers.
    pub(crate) fn cost_ns(&self, path: DataPath, own_headers: bool) -> Option<f64> {
        self.cost_in_trains_ns(path, own_headers, USUAL_TRAIN)
    }

    fn cost_in_trains_ns(&self, path: DataPath, own_headers: bool, packets: u32) -> Option<f64> {
        let wanted = (packets, path.name(), own_headers);
        let is_wanted = |cost: &&PathCost| (cost.packets_per_train, &*cost.path, cost.own_headers) == wanted;
        let cost = self.costs.iter().find(is_wanted)?.cpu_ns_per_packet;
        Some(cost).filter(|ns| ns.is_finite() && *ns > 0.0)
    }

    /// Cost of a train, with stored or per-session headers. Where the longest trains were not measured, packets cost
    /// in all trains what they cost in those of [`USUAL_TRAIN`].
    pub(crate) fn train_cost(&self, path: DataPath, own_headers: bool) -> Option<TrainCost> {
        let usual = self.cost_ns(path, own_headers)?;
        let longest = self.cost_in_trains_ns(path, own_headers, MAX_TRAIN_PACKETS);
        Some(longest.map_or(TrainCost::of_packets(usual), |longest| {
            TrainCost::between((USUAL_TRAIN, usual), (MAX_TRAIN_PACKETS, longest))
        }))
    }

    /// The cheapest of these paths that were measured, with stored or per-session headers.
    pub fn cheapest(&self, paths: &[DataPath], own_headers: bool) -> Option<DataPath> {
        self.by_cost(paths, own_headers).first().map(|(path, _)| *path)
    }

    /// Adopts the costs of `other` with stored headers, or those with per-session headers, if `other` has a
    /// path there that this calibration lacks. All these costs are adopted together, since only figures of
    /// one run may be compared.
    pub fn complete(&mut self, other: &Calibration) {
        for own_headers in [false, true] {
            let theirs = other.costs.iter().filter(|cost| cost.own_headers == own_headers);
            let is_new = |cost: &PathCost| {
                let key = |of: &PathCost| (of.path.clone(), of.packets_per_train, of.own_headers);
                !self.costs.iter().any(|ours| key(ours) == key(cost))
            };
            if theirs.clone().any(is_new) {
                self.costs.retain(|cost| cost.own_headers != own_headers);
                self.costs.extend(theirs.cloned());
            }
        }
    }

    /// Costs of a packet by these paths, the cheapest first. For stored headers, the paths by io_uring
    /// follow: `gso_writev 121 ns, wire_sendfile 152 ns; by io_uring, without a copy: wire_uring 92 ns`.
    pub fn in_words(&self, paths: &[DataPath], own_headers: bool) -> String {
        let in_words = |paths: &[DataPath]| {
            let costs = self.by_cost(paths, own_headers);
            costs.iter().map(|(path, ns)| format!("{path} {ns:.0} ns")).collect::<Vec<_>>().join(", ")
        };
        let lent = |path: &DataPath| path.needs_ring() && !paths.contains(path);
        let lent: Vec<DataPath> = DataPath::SERVING.into_iter().filter(lent).collect();
        match in_words(&lent) {
            lent if lent.is_empty() => in_words(paths),
            lent => format!("{}; by io_uring, without a copy: {lent}", in_words(paths)),
        }
    }

    /// Those of these paths that were measured, the cheapest first.
    fn by_cost(&self, paths: &[DataPath], own_headers: bool) -> Vec<(DataPath, f64)> {
        let measured = |path: &DataPath| Some((*path, self.cost_ns(*path, own_headers)?));
        let mut costs: Vec<_> = paths.iter().filter_map(measured).collect();
        costs.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        costs
    }
}

/// The calibrations of one user, at most one for each host, kind of device and MTU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibrations {
    /// Version of this format.
    version: u32,
    entries: Vec<Calibration>,
    /// Sizes from which pages are lent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    loan_thresholds: Vec<LoanThreshold>,
}

/// The one version there is.
const VERSION: u32 = 1;

/// Most calibrations that are kept; the oldest are dropped first.
const MOST_ENTRIES: usize = 64;

impl Calibrations {
    /// Adds a calibration, replacing an earlier one of the same host, device and MTU.
    pub fn add(&mut self, calibration: Calibration) {
        self.version = VERSION;
        let key = |of: &Calibration| (of.host.clone(), of.device.clone(), of.mtu);
        self.entries.retain(|other| key(other) != key(&calibration));
        self.entries.push(calibration);
        let surplus = self.entries.len().saturating_sub(MOST_ENTRIES);
        self.entries.drain(..surplus);
    }

    /// Completes the calibration of the same host, device and MTU, or adds it if there is none.
    pub fn complete(&mut self, calibration: &Calibration) {
        match self.find_mut(&calibration.host, &calibration.device, calibration.mtu) {
            Some(known) => known.complete(calibration),
            None => self.add(calibration.clone()),
        }
    }

    /// Calibrations of this host, in the order in which they were added.
    pub fn of_host(&self, host: &Host) -> impl Iterator<Item = &Calibration> {
        self.entries.iter().filter(move |entry| entry.host == *host)
    }

    fn find_mut(&mut self, host: &Host, device: &DeviceKind, mtu: u32) -> Option<&mut Calibration> {
        let of_device = |entry: &&mut Calibration| entry.host == *host && entry.device == *device;
        self.entries.iter_mut().filter(of_device).min_by_key(|entry| entry.mtu.abs_diff(mtu))
    }

    /// The calibration of this host and the first of these devices that has any; of several, the one with the
    /// nearest MTU.
    pub fn find(&self, host: &Host, devices: &[DeviceKind], mtu: u32) -> Option<&Calibration> {
        devices.iter().find_map(|device| {
            self.entries
                .iter()
                .filter(|entry| entry.host == *host && entry.device == *device)
                .min_by_key(|entry| entry.mtu.abs_diff(mtu))
        })
    }
}

#[cfg(test)]
mod tests;
