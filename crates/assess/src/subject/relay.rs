//! Parts of the relay experiment, and the methods that it compares.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Part of the relay experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A file to 16 connections at once.
    FileToSocket,
    /// 16 connections, each to its own file.
    SocketToFile,
    /// 16 connections to 16 others, as in TCP proxies.
    SocketToSocket,
    /// Records of 16 connections in turn to one.
    Merge,
    /// Records of one connection to several in turn.
    Stripe,
    /// Records of one connection, each to one of several at random.
    Random,
    /// One connection to several.
    Mirror,
    /// Datagrams to 64 receivers; some cases to 1 to 256.
    UdpMirror,
    /// Many streams on one engine, most of them idle.
    Crowd,
    /// Files of several sizes to 16 clients that request them one after the other.
    Files,
    /// As `Files`, through a proxy.
    FileProxy,
    /// Records of 16 connections to one, in several orders.
    Orders,
    /// Records of a TCP connection to another, judged by an eBPF handler in the kernel or in user space.
    KernelTcp,
    /// Datagrams to a receiver, judged likewise.
    KernelUdp,
    /// Datagrams to several receivers, judged and mirrored in the kernel or in user space.
    KernelMirror,
}

/// Unknown name of a part.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown part {0:?}: expected one of {names}", names = Part::ALL.map(Part::name).join(", "))]
pub struct UnknownPart(String);

impl Part {
    /// All parts, in the order of reports.
    pub const ALL: [Part; 15] = [
        Part::FileToSocket,
        Part::SocketToFile,
        Part::SocketToSocket,
        Part::Merge,
        Part::Stripe,
        Part::Random,
        Part::Mirror,
        Part::UdpMirror,
        Part::Crowd,
        Part::Files,
        Part::FileProxy,
        Part::Orders,
        Part::KernelTcp,
        Part::KernelUdp,
        Part::KernelMirror,
    ];

    /// Name, as in the arguments of the command.
    pub const fn name(self) -> &'static str {
        match self {
            Part::FileToSocket => "file-to-socket",
            Part::SocketToFile => "socket-to-file",
            Part::SocketToSocket => "socket-to-socket",
            Part::Merge => "merge",
            Part::Stripe => "stripe",
            Part::Random => "random",
            Part::Mirror => "mirror",
            Part::UdpMirror => "udp-mirror",
            Part::Crowd => "crowd",
            Part::Files => "files",
            Part::FileProxy => "file-proxy",
            Part::Orders => "orders",
            Part::KernelTcp => "kernel-tcp",
            Part::KernelUdp => "kernel-udp",
            Part::KernelMirror => "kernel-mirror",
        }
    }

    /// Returns whether the part is measured only if it is named.
    pub const fn is_extra(self) -> bool {
        matches!(self, Part::Files | Part::FileProxy | Part::Orders) || self.is_judged()
    }

    /// Returns whether an eBPF handler judges records. Its cost includes sources, sinks and kernel threads: the
    /// kernel charges what it does for a record to the task that it interrupts.
    pub const fn is_judged(self) -> bool {
        matches!(self, Part::KernelTcp | Part::KernelUdp | Part::KernelMirror)
    }

    /// Divisor of the volume that sources send: each byte is sent to 16 or 64 sinks, or records come at a fixed
    /// rate, and a run would take longer by that factor.
    pub const fn share(self) -> u64 {
        match self {
            Part::Mirror => 4,
            Part::UdpMirror => 16,
            Part::KernelTcp | Part::KernelUdp | Part::KernelMirror => 8,
            _ => 1,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Part {
    type Err = UnknownPart;

    fn from_str(text: &str) -> Result<Part, UnknownPart> {
        Part::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| UnknownPart(text.to_owned()))
    }
}

/// Method of moving data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Method {
    /// Loop of `read` and `write`; for datagrams, `recv` and `send`.
    ReadWrite,
    /// Loop of `recv` and `send` of datagrams that the kernel joins when they arrive (`UDP_GRO`) and cuts when they
    /// leave (`UDP_SEGMENT`).
    Trains,
    /// Plain program: a thread for each link that reads into its single buffer, processes the data, and
    /// writes.
    Plain,
    /// Loop of `sendfile`.
    Sendfile,
    /// Loop of `splice` through pipes.
    Splice,
    /// Receives and sends queued in an io_uring, with registered memory.
    Uring,
    /// Stream service.
    Streams,
    /// The handler of the stream service in the kernel: for TCP a sockmap, for datagrams early drops in the driver
    /// (XDP), in front of the stream service, or a mirror in traffic control, beside it.
    Kernel,
    /// Reference: what comes is neither judged nor sent on. TCP is received without a copy; datagrams are dropped
    /// as packets for another machine.
    Discard,
    /// Other program.
    #[serde(untagged)]
    Program(Program),
}

/// Program in common use as a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// One thread, in TCP mode, splicing in both directions: its own heuristics (`splice-auto`) rarely
    /// splice.
    HaProxy,
    /// One process, with its stream module.
    Nginx,
    /// One process for each connection.
    Socat,
}

impl Program {
    /// All programs, in the order of reports.
    pub const ALL: [Program; 3] = [Program::HaProxy, Program::Nginx, Program::Socat];

    /// Name.
    pub const fn name(self) -> &'static str {
        match self {
            Program::HaProxy => "haproxy",
            Program::Nginx => "nginx",
            Program::Socat => "socat",
        }
    }
}

impl Method {
    /// Methods other than programs.
    const OWN: [Method; 9] = [
        Method::ReadWrite,
        Method::Trains,
        Method::Plain,
        Method::Sendfile,
        Method::Splice,
        Method::Uring,
        Method::Streams,
        Method::Kernel,
        Method::Discard,
    ];

    /// Name.
    pub const fn name(self) -> &'static str {
        match self {
            Method::ReadWrite => "read_write",
            Method::Trains => "trains",
            Method::Plain => "plain",
            Method::Sendfile => "sendfile",
            Method::Splice => "splice",
            Method::Uring => "uring",
            Method::Streams => "streams",
            Method::Kernel => "kernel",
            Method::Discard => "discard",
            Method::Program(program) => program.name(),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl TryFrom<String> for Method {
    type Error = String;

    fn try_from(name: String) -> Result<Method, String> {
        let mut all = Method::OWN.into_iter().chain(Program::ALL.map(Method::Program));
        all.find(|method| method.name() == name).ok_or_else(|| format!("unknown method {name:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Old results stay readable: names of paths, variants and methods are parsed back.
    #[test]
    fn parts_are_read_back_by_name() {
        for part in Part::ALL {
            assert_eq!(part.to_string().parse(), Ok(part));
            assert_eq!(serde_json::to_value(part).unwrap(), part.name());
        }
        let unknown = "gold".parse::<Part>().unwrap_err().to_string();
        assert!(unknown.contains("\"gold\"") && unknown.contains("udp-mirror"), "{unknown}");
    }

    /// Promise: Old results stay readable: names of paths, variants and methods are parsed back.
    #[test]
    fn methods_are_read_back_by_name() {
        for method in Method::OWN.into_iter().chain(Program::ALL.map(Method::Program)) {
            assert_eq!(serde_json::to_value(method).unwrap(), method.name());
            assert_eq!(serde_json::from_value::<Method>(method.name().into()).unwrap(), method);
        }
        assert!(serde_json::from_value::<Method>("gold".into()).is_err());
    }
}
