//! Options of an assessment.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::result::{Cache, Settings};
use crate::subject::{Experiment, Part};

/// Options of every experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Payload bytes of each run.
    pub volume: u64,
    /// Runs of each measurement.
    pub runs: u32,
    /// True for the quick form: fewer runs, less care.
    pub quick: bool,
    /// State of the page cache before a run.
    pub cache: Cache,
    /// Destination of packets.
    pub sink: Sink,
    /// MTU of the sink's device in bytes.
    pub mtu: u32,
    /// Processor to measure on; `None` for the last one that may be used.
    pub cpu: Option<u32>,
    /// File to send; `None` to generate one.
    pub file: Option<PathBuf>,
    /// Program of bare C loops (`bench/bare.c`) to measure in addition to the paths for streaming.
    pub bare: Option<PathBuf>,
    /// Folder for generated files; they are kept for the next assessment.
    pub scratch: PathBuf,
    /// Calibration file: costs of data paths on this machine, and size thresholds for lending pages. It is
    /// read, and results are added to it.
    pub calibration: PathBuf,
    /// Policy of the path `loan`: lend always or never; `None` to lend from the calibrated size on.
    pub loans: Option<bool>,
    /// Parts of `relay` to measure; empty for all.
    pub parts: Vec<Part>,
    /// True if `relay` measures all kinds of handlers.
    pub handlers: bool,
    /// Object of the eBPF handler that the parts `kernel-...` of `relay` measure.
    pub kernel_handler: Option<PathBuf>,
}

impl Options {
    /// Settings as recorded in the result.
    pub fn settings(&self, experiments: Vec<Experiment>) -> Settings {
        Settings {
            experiments,
            volume: self.volume,
            runs: self.runs,
            quick: self.quick,
            sink: self.sink.to_string(),
            tcp_peer: None,
            mtu: self.mtu,
            cache: self.cache,
            cpu: self.cpu,
        }
    }
}

/// Destination of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Device that drops packets, and takes UDP segments and checksums like a network card with these
    /// offloads.
    Drop,
    /// Device that drops packets, without these offloads.
    DropNoOffload,
    /// Receiver behind the loopback device; the only sink that needs no privileges.
    Loopback,
    /// Receiver in another network namespace, behind a pair of veth devices.
    Veth,
    /// `wirepath assess sink` on another host: its address and port.
    Host(String),
}

impl Sink {
    /// Returns whether the sink is a device that drops packets, without a receiver.
    pub fn drops(&self) -> bool {
        matches!(self, Sink::Drop | Sink::DropNoOffload)
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Sink::Drop => "drop",
            Sink::DropNoOffload => "drop-nooffload",
            Sink::Loopback => "loopback",
            Sink::Veth => "veth",
            Sink::Host(address) => address,
        })
    }
}

/// Text that is not the name of a sink.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown sink {0:?}: expected drop, drop-nooffload, loopback, veth, or HOST:PORT where `wirepath assess sink` runs"
)]
pub struct UnknownSink(String);

impl FromStr for Sink {
    type Err = UnknownSink;

    fn from_str(text: &str) -> Result<Sink, UnknownSink> {
        match text {
            "drop" => Ok(Sink::Drop),
            "drop-nooffload" => Ok(Sink::DropNoOffload),
            "loopback" => Ok(Sink::Loopback),
            "veth" => Ok(Sink::Veth),
            host if is_host_and_port(host) => Ok(Sink::Host(host.to_owned())),
            other => Err(UnknownSink(other.to_owned())),
        }
    }
}

fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (bracketed || !host.contains(':')) && port.parse().is_ok_and(|port: u16| port > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_are_read_back() {
        for sink in ["drop", "drop-nooffload", "loopback", "veth", "peer:9000", "[2001:db8::1]:9000"] {
            assert_eq!(sink.parse::<Sink>().unwrap().to_string(), sink);
        }
        for wrong in ["", "drops", "peer", "peer:", "peer:0", "peer:65536", "2001:db8::1", ":9000"] {
            let error = wrong.parse::<Sink>().unwrap_err().to_string();
            assert!(error.contains("drop-nooffload"), "{wrong:?}: {error}");
        }
    }
}
