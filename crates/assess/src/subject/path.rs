//! Data paths, and their measured variants.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wirepath_datapath::{BlockPath, DataPath};

use super::{Experiment, Transport};

/// Data path of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum PathKind {
    /// Packets with RTP headers: over UDP, and by those of [`DataPath::FRAMED`] in a TCP connection.
    Stream(DataPath),
    /// Trains with RTP headers in a TCP connection, as servers send them today.
    Interleaved,
    /// Bytes of a file.
    Block(BlockPath),
}

/// Calls a method of a path of either kind; `interleaved` has no type of its own, but this answer.
macro_rules! of_each {
    ($kind:expr, $method:ident, $interleaved:expr) => {
        match $kind {
            PathKind::Stream(path) => path.$method(),
            PathKind::Block(path) => path.$method(),
            PathKind::Interleaved => $interleaved,
        }
    };
}

impl PathKind {
    /// Name, unique among paths of both kinds.
    pub fn name(self) -> &'static str {
        of_each!(self, name, "interleaved")
    }

    /// Experiment that measures the path.
    pub fn experiment(self) -> Experiment {
        match self {
            PathKind::Stream(_) | PathKind::Interleaved => Experiment::Stream,
            PathKind::Block(_) => Experiment::Download,
        }
    }

    /// Paths that send packets in a TCP connection.
    pub fn framed() -> impl Iterator<Item = PathKind> {
        DataPath::FRAMED.into_iter().map(PathKind::Stream).chain([PathKind::Interleaved])
    }

    /// Returns whether the path sends packets with RTP headers.
    pub fn has_headers(self) -> bool {
        !matches!(self, PathKind::Block(_))
    }

    /// Returns whether the path sends trains that are cut by UDP_SEGMENT, whose packets the network cannot
    /// fragment.
    pub fn segments(self) -> bool {
        match self {
            PathKind::Stream(path) => path.segments() && path.batches(),
            PathKind::Block(path) => path.segments(),
            PathKind::Interleaved => false,
        }
    }

    /// Returns whether its trains are cut by the kernel or the device, even if only to have checksums
    /// computed.
    pub fn sends_trains(self) -> bool {
        match self {
            PathKind::Stream(path) => path.sends_trains(),
            PathKind::Block(path) => path.segments() || path.takes_runs(),
            PathKind::Interleaved => false,
        }
    }

    /// Returns whether the path sends pages of a file by reference, by `sendfile`.
    pub fn sends_by_reference(self) -> bool {
        self.name().ends_with("sendfile")
    }

    /// Returns whether the path lends pages to the kernel.
    pub fn lends(self) -> bool {
        of_each!(self, lends, false)
    }

    /// Returns whether the path sends from memory that a ring holds.
    pub fn needs_hot_memory(self) -> bool {
        of_each!(self, needs_hot_memory, false)
    }

    /// Returns whether the path needs an io_uring.
    pub fn needs_ring(self) -> bool {
        of_each!(self, needs_ring, false)
    }

    /// Returns whether the path needs the kernel module.
    pub fn needs_module(self) -> bool {
        of_each!(self, needs_module, false)
    }

    /// Returns whether one call takes any number of packets, so that one call sends a file.
    pub fn takes_runs(self) -> bool {
        of_each!(self, takes_runs, false)
    }

    /// Kernel calls per packet or block by the papers; `None` for paths newer than the papers, and for streaming
    /// over TCP, of which they have no such table.
    pub fn calls_in_papers(self, transport: Transport, size: Option<u16>) -> Option<u32> {
        match self {
            PathKind::Stream(path) => path.calls_in_papers().filter(|_| transport == Transport::Udp),
            PathKind::Block(path) => path.calls_in_papers(transport == Transport::Tcp, size.is_none()),
            PathKind::Interleaved => None,
        }
    }

    /// Returns whether one call takes several packets.
    pub fn batches(self) -> bool {
        match self {
            PathKind::Stream(path) => path.batches(),
            PathKind::Block(path) => path.segments() || path.takes_runs(),
            PathKind::Interleaved => true,
        }
    }
}

impl fmt::Display for PathKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl From<DataPath> for PathKind {
    fn from(path: DataPath) -> PathKind {
        PathKind::Stream(path)
    }
}

impl From<BlockPath> for PathKind {
    fn from(path: BlockPath) -> PathKind {
        PathKind::Block(path)
    }
}

impl From<PathKind> for &'static str {
    fn from(path: PathKind) -> &'static str {
        path.name()
    }
}

/// Unknown name of a data path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown data path {0:?}")]
pub struct UnknownPath(String);

impl FromStr for PathKind {
    type Err = UnknownPath;

    fn from_str(name: &str) -> Result<PathKind, UnknownPath> {
        if name == PathKind::Interleaved.name() {
            return Ok(PathKind::Interleaved);
        }
        let stream = name.parse().map(PathKind::Stream).ok();
        let block = || name.parse().map(PathKind::Block).ok();
        stream.or_else(block).ok_or_else(|| UnknownPath(name.to_owned()))
    }
}

impl TryFrom<String> for PathKind {
    type Error = UnknownPath;

    fn try_from(name: String) -> Result<PathKind, UnknownPath> {
        name.parse()
    }
}

/// Measured variant of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// Plain.
    Plain,
    /// Path that takes runs, sending single packets instead of trains.
    Single,
    /// Bare C loop that does the same as the path.
    Bare,
    /// Sends of the loan experiment.
    Send {
        /// True for sends that lend their pages; else sends copy.
        lent: bool,
        /// True if each send begins at a page boundary; else shortly before one.
        aligned: bool,
    },
    /// Sends of the loan experiment that lend or copy by the calibrated policy.
    AutoSend {
        /// As for [`Variant::Send`].
        aligned: bool,
    },
    /// Sends of the loan experiment as one datagram, which the kernel fragments.
    Fragments {
        /// True if `sendfile` sends pages by reference; else sends copy.
        spliced: bool,
        /// As for [`Variant::Send`].
        aligned: bool,
    },
}

/// Data path in a variant; written as `krtpsendfile:single`, `bare:read_writev` or `loan:lend:unaligned`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PathVariant {
    /// Data path.
    pub kind: PathKind,
    /// Variant of the path.
    pub variant: Variant,
}

/// Suffixes of path names by variant.
const SUFFIXES: [(Variant, &str); 12] = [
    (Variant::Plain, ""),
    (Variant::Single, ":single"),
    (Variant::Send { lent: false, aligned: true }, ":copy"),
    (Variant::Send { lent: false, aligned: false }, ":copy:unaligned"),
    (Variant::Send { lent: true, aligned: true }, ":lend"),
    (Variant::Send { lent: true, aligned: false }, ":lend:unaligned"),
    (Variant::AutoSend { aligned: true }, ":auto"),
    (Variant::AutoSend { aligned: false }, ":auto:unaligned"),
    (Variant::Fragments { spliced: false, aligned: true }, ":fragments"),
    (Variant::Fragments { spliced: false, aligned: false }, ":fragments:unaligned"),
    (Variant::Fragments { spliced: true, aligned: true }, ":fragments-spliced"),
    (Variant::Fragments { spliced: true, aligned: false }, ":fragments-spliced:unaligned"),
];

/// Prefix of a bare C loop's name.
const BARE: &str = "bare:";

impl PathVariant {
    /// Plain variant of a path.
    pub fn plain(kind: impl Into<PathKind>) -> PathVariant {
        PathVariant { kind: kind.into(), variant: Variant::Plain }
    }

    /// Sends of the loan experiment.
    pub const fn send(lent: bool, aligned: bool) -> PathVariant {
        PathVariant { kind: PathKind::Block(BlockPath::Loan), variant: Variant::Send { lent, aligned } }
    }

    /// Sends of the loan experiment that lend or copy by the calibrated policy.
    pub const fn auto_send(aligned: bool) -> PathVariant {
        PathVariant { kind: PathKind::Block(BlockPath::Loan), variant: Variant::AutoSend { aligned } }
    }

    /// Sends of the loan experiment that the kernel fragments.
    pub const fn fragments(spliced: bool, aligned: bool) -> PathVariant {
        PathVariant {
            kind: PathKind::Block(BlockPath::Loan),
            variant: Variant::Fragments { spliced, aligned },
        }
    }

    /// Bare C loop that does the same as this path.
    pub const fn bare(self) -> PathVariant {
        PathVariant { variant: Variant::Bare, ..self }
    }

    /// Returns whether the variant is a bare C loop.
    pub fn is_bare(self) -> bool {
        self.variant == Variant::Bare
    }
}

impl fmt::Display for PathVariant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = SUFFIXES.iter().find(|(variant, _)| *variant == self.variant);
        match suffix {
            Some((_, suffix)) => write!(formatter, "{}{suffix}", self.kind),
            None => write!(formatter, "{BARE}{}", self.kind),
        }
    }
}

impl FromStr for PathVariant {
    type Err = UnknownPath;

    fn from_str(text: &str) -> Result<PathVariant, UnknownPath> {
        if let Some(name) = text.strip_prefix(BARE) {
            return Ok(PathVariant { kind: name.parse()?, variant: Variant::Bare });
        }
        let (name, suffix) = text.split_at(text.find(':').unwrap_or(text.len()));
        let variant = SUFFIXES.iter().find(|(_, known)| *known == suffix);
        let (variant, _) = variant.ok_or_else(|| UnknownPath(text.to_owned()))?;
        Ok(PathVariant { kind: name.parse()?, variant: *variant })
    }
}

impl TryFrom<String> for PathVariant {
    type Error = UnknownPath;

    fn try_from(text: String) -> Result<PathVariant, UnknownPath> {
        text.parse()
    }
}

impl From<PathVariant> for String {
    fn from(path: PathVariant) -> String {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Old results stay readable: names of paths, variants and methods are parsed back.
    #[test]
    fn every_path_and_variant_is_read_back() {
        let paths = || {
            let of_types =
                DataPath::ALL.map(PathKind::from).into_iter().chain(BlockPath::ALL.map(PathKind::from));
            of_types.chain([PathKind::Interleaved])
        };
        let variants = SUFFIXES.map(|(variant, _)| variant).into_iter().chain([Variant::Bare]);
        for variant in variants {
            for kind in paths() {
                let path = PathVariant { kind, variant };
                assert_eq!(path.to_string().parse(), Ok(path));
            }
        }
        let mut names: Vec<&str> = paths().map(PathKind::name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "two paths have one name");
    }

    #[test]
    fn variants_are_written_as_kept_results_have_them() {
        assert_eq!(PathVariant::plain(DataPath::ReadWritev).bare().to_string(), "bare:read_writev");
        assert_eq!(PathVariant::send(true, false).to_string(), "loan:lend:unaligned");
        assert_eq!(PathVariant::auto_send(true).to_string(), "loan:auto");
        assert_eq!(PathVariant::fragments(true, false).to_string(), "loan:fragments-spliced:unaligned");
        for wrong in ["", "bare:", "gold", "loan:lend:", "krtpsendfile:double", "bare:krtpsendfile:single"] {
            assert!(wrong.parse::<PathVariant>().is_err(), "{wrong}");
        }
    }
}
