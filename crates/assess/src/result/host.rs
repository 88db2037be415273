//! Description of the machine in a result.

use serde::{Deserialize, Serialize};

use super::{Experiment, PathKind, Transport};

/// Machine, and its missing requirements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release, as by `uname -r`.
    pub kernel: String,
    /// Processor name from /proc/cpuinfo.
    pub processor: String,
    /// Number of processors that may be used.
    pub processors: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// Network devices.
    pub devices: Vec<Device>,
    /// Relevant limits, kernel settings and privileges, by name.
    pub limits: Vec<Setting>,
    /// Data paths and their availability.
    pub paths: Vec<PathState>,
    /// Advice.
    pub advice: Vec<Advice>,
    /// Load averages at the start.
    pub load: String,
}

/// Network device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Name.
    pub name: String,
    /// Driver, if known.
    pub driver: Option<String>,
    /// True if the device is up.
    pub up: bool,
    /// MTU.
    pub mtu: u32,
    /// Speed in Mb/s, if known.
    pub speed_mbps: Option<u32>,
    /// Ring sizes, if known.
    pub rings: Option<Rings>,
    /// Features that data paths need, by ethtool's names, and their states.
    pub features: Vec<Feature>,
}

/// Ring sizes of a device, in descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// Transmit ring.
    pub transmit: u32,
    /// Largest possible transmit ring.
    pub transmit_most: u32,
    /// Receive ring.
    pub receive: u32,
    /// Largest possible receive ring.
    pub receive_most: u32,
}

/// Feature of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Name as in ethtool, for example `tx-udp-segmentation`.
    pub name: String,
    /// True if the feature is on.
    pub on: bool,
    /// True if the feature can be switched; ethtool shows other features as fixed.
    pub changeable: bool,
}

/// Limit or kernel setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Name, for example `net.core.wmem_max`.
    pub name: String,
    /// Value.
    pub value: String,
}

/// Availability of a data path, tested by sending over the loopback device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    /// `stream` or `download`.
    pub experiment: Experiment,
    /// Data path.
    pub path: PathKind,
    /// UDP or TCP.
    pub transport: Transport,
    /// True if the sent data arrived, byte for byte.
    pub runs: bool,
    /// Missing requirement, or limitation; null if nothing is missing.
    pub missing: Option<String>,
    /// Remedy for the missing requirement.
    pub remedy: Option<String>,
}

/// Possible improvement of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// Finding.
    pub finding: String,
    /// Cost of the finding, and the data paths concerned.
    pub consequence: String,
    /// Command or setting that fixes the finding.
    pub remedy: String,
}

/// Cost of kernel entry and of copying.
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
    /// Bytes per copy.
    pub size: u64,
    /// True if source and target begin at cache line boundaries (for sizes of a page and more: at page
    /// boundaries), else one byte and three bytes after them.
    pub aligned: bool,
    /// True if the same block is copied repeatedly (from the processor's caches), else a different block each
    /// time.
    pub cached: bool,
    /// Nanoseconds of one copy, run by run.
    pub ns: Vec<f64>,
}
