//! What is measured: parts of the experiment, and in each the ways to do the same.

use std::fmt;
use std::str::FromStr;

use super::programs::Program;
use super::task::DATAGRAM;

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A file to 16 connections at once.
    FileToSocket,
    /// 16 connections, each to a file of its own.
    SocketToFile,
    /// 16 connections to 16 others: what TCP proxies do.
    SocketToSocket,
    /// Records of 16 connections in turn to one.
    Merge,
    /// Records of one connection to several in turn.
    Stripe,
    /// Records of one connection, each to one of several at random.
    Random,
    /// One connection to several.
    Mirror,
    /// Datagrams to 64 receivers.
    UdpMirror,
    /// Many streams on one engine, most of them idle.
    Crowd,
}

/// A name that is none of a part.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no part {0:?}; there are {names}", names = Part::ALL.map(Part::name).join(", "))]
pub struct UnknownPart(String);

impl Part {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Part; 9] = [
        Part::FileToSocket,
        Part::SocketToFile,
        Part::SocketToSocket,
        Part::Merge,
        Part::Stripe,
        Part::Random,
        Part::Mirror,
        Part::UdpMirror,
        Part::Crowd,
    ];

    /// Its name, by which it is asked for.
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
        }
    }

    /// Share of the volume that sources send of it: each byte leaves 16 or 64 times, and else a run would take as much longer.
    pub(crate) const fn share(self) -> u64 {
        match self {
            Part::Mirror => 4,
            Part::UdpMirror => 16,
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

/// A way to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A loop of `read` and `write`; of datagrams `recv` and `send`.
    ReadWrite,
    /// A loop of `sendfile`.
    Sendfile,
    /// A loop of `splice` through pipes.
    Splice,
    /// Receives and sends that are queued in an io_uring, through registered memory.
    Uring,
    /// The stream service.
    Streams,
    /// Another program.
    Program(Program),
}

impl Way {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Way::ReadWrite => "read_write",
            Way::Sendfile => "sendfile",
            Way::Splice => "splice",
            Way::Uring => "uring",
            Way::Streams => "streams",
            Way::Program(program) => program.name(),
        }
    }
}

/// What is measured at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) part: Part,
    pub(crate) way: Way,
    /// Whether every byte is touched on its way.
    pub(crate) touch: bool,
    /// Bytes that are read at a time, bytes of a record, or bytes that arrive together; none where the way decides.
    pub(crate) block: Option<usize>,
    /// Connections on the side that has several, or receivers.
    pub(crate) links: usize,
    /// Connections beside these that carry nothing.
    pub(crate) idle: usize,
}

/// Clients, servers and inputs at once, as in the paper.
pub(crate) const LINKS: usize = 16;

/// Receivers of datagrams.
pub(crate) const RECEIVERS: usize = 64;

/// Streams of the crowd: those that the others are compared with, and the busy and the idle ones of the crowd itself.
pub(crate) const FEW: usize = 10;
pub(crate) const BUSY: usize = 1000;
pub(crate) const IDLE: usize = 10_000;

/// Blocks of loops that read and write, and records.
const BLOCKS: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// The block of those ways of which one size is enough.
const BLOCK: usize = 64 << 10;

/// Datagrams that arrive together: as many as 20 ms of 8 Mb/s have, which servers send in one go, or each alone.
pub(crate) const BURST: usize = 16;

/// Outputs of one input.
const OUTPUTS: [usize; 3] = [1, 4, 16];

impl Cell {
    fn new(part: Part, way: Way) -> Cell {
        Cell { part, way, touch: false, block: None, links: LINKS, idle: 0 }
    }

    fn of(self, block: usize) -> Cell {
        Cell { block: Some(block), ..self }
    }

    fn touched(self) -> Cell {
        Cell { touch: true, ..self }
    }

    fn with(self, links: usize) -> Cell {
        Cell { links, ..self }
    }

    /// For people.
    pub(crate) fn label(&self) -> String {
        let Cell { part, way, block, links, idle, .. } = self;
        let mut label = format!("{part} by {}", way.name());
        if let Some(block) = block {
            label += &format!(", {}", crate::report::number::bytes(*block as u64));
        }
        if self.touch {
            label += ", touched";
        }
        label += &format!(", {links} links");
        if *idle > 0 {
            label += &format!(" and {idle} idle");
        }
        label
    }
}

/// Everything that is measured of a part.
pub(crate) fn cells(part: Part) -> Vec<Cell> {
    let by = |way: Way| Cell::new(part, way);
    let (loops, streams) = (by(Way::ReadWrite), by(Way::Streams));
    let mut cells: Vec<Cell> = Vec::new();
    match part {
        Part::FileToSocket | Part::SocketToFile | Part::SocketToSocket => {
            cells.extend(BLOCKS.map(|block| loops.of(block)));
            cells.push(loops.of(BLOCK).touched());
            cells.extend((part == Part::FileToSocket).then(|| by(Way::Sendfile)));
            if part == Part::SocketToSocket {
                cells.push(by(Way::Splice));
                cells.extend(BLOCKS.map(|block| by(Way::Uring).of(block)));
            }
            cells.extend([streams, streams.touched()]);
            if part == Part::SocketToSocket {
                cells.extend(Program::ALL.map(|program| by(Way::Program(program))));
            }
        }
        Part::Merge => {
            cells.extend(BLOCKS.iter().flat_map(|block| [loops.of(*block), streams.of(*block)]));
            cells.extend([loops.of(BLOCK).touched(), streams.of(BLOCK).touched()]);
        }
        Part::Stripe | Part::Random => {
            for links in OUTPUTS {
                cells.extend([loops.of(BLOCK).with(links), streams.of(BLOCK).with(links)]);
            }
            let most = OUTPUTS[OUTPUTS.len() - 1];
            cells.extend([loops, streams].map(|cell| cell.of(BLOCK).with(most).touched()));
        }
        Part::Mirror => {
            for links in OUTPUTS {
                cells.extend([loops.of(BLOCK).with(links), streams.with(links)]);
            }
            cells.extend([loops.of(BLOCK), streams].map(|cell| cell.with(OUTPUTS[2]).touched()));
        }
        Part::UdpMirror => {
            for burst in [1, BURST] {
                let of_burst = |cell: Cell| cell.of(burst * DATAGRAM).with(RECEIVERS);
                cells.extend([of_burst(loops), of_burst(streams)]);
            }
            cells.push(streams.of(BURST * DATAGRAM).with(RECEIVERS).touched());
        }
        Part::Crowd => {
            for way in [loops.of(BLOCK), by(Way::Splice), streams] {
                cells.extend([way.with(FEW), Cell { idle: IDLE, ..way.with(BUSY) }]);
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_back_by_name() {
        for part in Part::ALL {
            assert_eq!(part.to_string().parse(), Ok(part));
        }
        let unknown = "gold".parse::<Part>().unwrap_err().to_string();
        assert!(unknown.contains("\"gold\"") && unknown.contains("udp-mirror"), "{unknown}");
    }

    #[test]
    fn every_part_has_the_stream_service_and_no_cell_is_there_twice() {
        for part in Part::ALL {
            let cells = cells(part);
            assert!(cells.iter().any(|cell| cell.way == Way::Streams), "{part}");
            let mut labels: Vec<String> = cells.iter().map(Cell::label).collect();
            labels.sort();
            labels.dedup();
            assert_eq!(labels.len(), cells.len(), "{part}");
        }
        assert_eq!(cells(Part::SocketToSocket).len(), 13);
    }
}
