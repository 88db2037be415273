//! Lines of the papers' tables 3 and 4: kernel calls and copies of each path, per packet.

use wirepath_datapath::{BlockPath, DataPath};

use crate::result::{Counted, PathKind, Transport};

/// Line of a table. The tables count two switches between user space and kernel per call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) table: PaperTable,
    pub(super) path: PathKind,
    pub(super) transport: Transport,
    /// Calls, without the single `mmap` of a file; `None` if the papers give no figure.
    pub(super) calls: Option<Amount>,
    /// Copy operations.
    pub(super) copies: Option<Amount>,
}

/// Table of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PaperTable {
    /// Table 3: content download.
    Download,
    /// Table 4: streaming, with RTP headers.
    Streaming,
    /// Slides 33 and 34 of the conference talk, newer than the tables.
    Slides,
}

/// Number of calls or copies for n packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// Constant, for any number of packets.
    InAll(u32),
    /// Multiple of n.
    Each(u32),
}

use Amount::{Each, InAll};

/// Paths of the papers, in the papers' order.
pub(super) const LINES: [Line; 18] = [
    download(BlockPath::ReadWrite, Transport::Udp, Each(2), Each(2)),
    download(BlockPath::MmapSend, Transport::Udp, Each(1), Each(1)),
    download(BlockPath::Sendfile, Transport::Udp, Each(1), InAll(0)),
    download(BlockPath::Sendfile, Transport::Tcp, InAll(1), InAll(0)),
    download(BlockPath::MmapMsend, Transport::Udp, Each(1), InAll(0)),
    download(BlockPath::Kmsend, Transport::Udp, InAll(1), InAll(0)),
    download(BlockPath::Ksendfile, Transport::Udp, InAll(1), InAll(0)),
    streaming(DataPath::ReadSendRtp, Each(2), Each(2)),
    streaming(DataPath::ReadWritev, Each(2), Each(3)),
    streaming(DataPath::MmapSendRtp, Each(4), Each(2)),
    streaming(DataPath::MmapWritev, Each(1), Each(2)),
    streaming(DataPath::RtpSendfile, Each(4), Each(1)),
    streaming(DataPath::MmapRtpmsend, Each(1), Each(1)),
    streaming(DataPath::MmapSendMsend, Each(4), Each(1)),
    streaming(DataPath::Rtpsendfile, Each(1), Each(1)),
    streaming(DataPath::Krtpsendfile, InAll(1), InAll(0)),
    streaming(DataPath::Krtpmsend, InAll(1), InAll(0)),
    Line {
        table: PaperTable::Slides,
        path: PathKind::Stream(DataPath::Sendfilew),
        transport: Transport::Udp,
        calls: None,
        copies: None,
    },
];

const fn download(path: BlockPath, transport: Transport, calls: Amount, copies: Amount) -> Line {
    let path = PathKind::Block(path);
    Line { table: PaperTable::Download, path, transport, calls: Some(calls), copies: Some(copies) }
}

const fn streaming(path: DataPath, calls: Amount, copies: Amount) -> Line {
    let (path, transport) = (PathKind::Stream(path), Transport::Udp);
    Line { table: PaperTable::Streaming, path, transport, calls: Some(calls), copies: Some(copies) }
}

impl Amount {
    /// Number for `packets` packets.
    pub(super) fn of(self, packets: u64) -> u64 {
        match self {
            InAll(number) => number.into(),
            Each(number) => u64::from(number) * packets,
        }
    }

    /// Notation of the papers: `2n`.
    pub(super) fn text(self) -> String {
        match self {
            InAll(number) => number.to_string(),
            Each(1) => "n".to_owned(),
            Each(number) => format!("{number}n"),
        }
    }
}

/// Line for the counted path and transport.
pub(super) fn line_of(counted: &Counted) -> Option<&'static Line> {
    LINES.iter().find(|line| line.path == counted.path && line.transport == counted.transport)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_tables_are_those_that_paths_are_held_to() {
        for line in LINES {
            let held_to =
                line.path.calls_in_papers(line.transport, line.transport.eq(&Transport::Udp).then_some(1));
            match (line.calls, held_to) {
                (Some(Each(calls)), Some(held_to)) => assert_eq!(calls, held_to, "{line:?}"),
                (Some(InAll(1)), Some(1)) if line.transport == Transport::Tcp => {}
                (Some(InAll(1)) | None, None) => {}
                other => panic!("{line:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn amounts_are_written_as_in_the_papers() {
        assert_eq!([InAll(1), Each(1), Each(4)].map(Amount::text), ["1", "n", "4n"]);
        assert_eq!((InAll(1).of(100), Each(3).of(100)), (1, 300));
    }
}
