//! The machine in a result.

use serde::{Deserialize, Serialize};

use super::{Experiment, PathKind, Transport};

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
    /// Data paths, and whether they run here.
    pub paths: Vec<PathState>,
    /// Advice.
    pub advice: Vec<Advice>,
    /// Load averages when it began.
    pub load: String,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Driver, where known.
    pub driver: Option<String>,
    /// True if it is up.
    pub up: bool,
    /// MTU.
    pub mtu: u32,
    /// Speed in Mb/s, where known.
    pub speed_mbps: Option<u32>,
    /// Sizes of its rings, where known.
    pub rings: Option<Rings>,
    /// Features that data paths need, by ethtool's names, and whether they are on.
    pub features: Vec<Feature>,
}

/// Rings of a device, in descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// Transmit ring.
    pub transmit: u32,
    /// The most that may be set for packets to be sent.
    pub transmit_most: u32,
    /// Receive ring.
    pub receive: u32,
    /// The most that may be set for received packets.
    pub receive_most: u32,
}

/// A feature of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// ethtool's name, for example `tx-udp-segmentation`.
    pub name: String,
    /// True if it is on.
    pub on: bool,
    /// True if it can be switched; what cannot, ethtool shows as fixed.
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

/// True if a data path runs here, found by sending with it over the loopback device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    /// `stream` or `download`.
    pub experiment: Experiment,
    /// The data path.
    pub path: PathKind,
    /// UDP or TCP.
    pub transport: Transport,
    /// True if what was sent arrived, byte for byte.
    pub runs: bool,
    /// Missing requirement, or the reason why it does less than it could; null if nothing is missing.
    pub missing: Option<String>,
    /// Remedy for that.
    pub remedy: Option<String>,
}

/// Possible improvement of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// Finding.
    pub finding: String,
    /// Cost of it, and the data paths concerned.
    pub consequence: String,
    /// The command or setting that mends it.
    pub remedy: String,
}

/// Cost of entering the kernel and of copying.
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
    /// True if source and target begin at the boundaries of cache lines (from a page on: of pages), else one
    /// byte and three behind them.
    pub aligned: bool,
    /// True if the same block is copied again and again (from the processor's caches), else ever other ones.
    pub cached: bool,
    /// Nanoseconds of one copy, run by run.
    pub ns: Vec<f64>,
}
