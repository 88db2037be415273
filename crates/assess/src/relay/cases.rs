//! Cases: parts of the experiment, and the methods of each.

use super::task::DATAGRAM;
use crate::subject::{Method, Part, Program};

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) part: Part,
    pub(crate) method: Method,
    /// True if every byte is touched on its way.
    pub(crate) touch: bool,
    /// Bytes that are read at a time, bytes of a record, or bytes that arrive together; none where the way
    /// decides.
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

/// Streams of the crowd: those that the others are compared with, and the busy and the idle ones of the crowd
/// itself.
pub(crate) const FEW: usize = 10;
pub(crate) const BUSY: usize = 1000;
pub(crate) const IDLE: usize = 10_000;

/// Blocks of loops that read and write, and records.
const BLOCKS: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// The block of those ways of which one size is enough.
const BLOCK: usize = 64 << 10;

/// Datagrams that arrive together: as many as 20 ms of 8 Mb/s have, which servers send in one go, or each
/// alone.
pub(crate) const BURST: usize = 16;

/// Outputs of one input.
const OUTPUTS: [usize; 3] = [1, 4, 16];

impl Case {
    fn new(part: Part, method: Method) -> Case {
        Case { part, method, touch: false, block: None, links: LINKS, idle: 0 }
    }

    fn of(self, block: usize) -> Case {
        Case { block: Some(block), ..self }
    }

    fn touched(self) -> Case {
        Case { touch: true, ..self }
    }

    fn with(self, links: usize) -> Case {
        Case { links, ..self }
    }

    pub(crate) fn label(&self) -> String {
        let Case { part, method, block, links, idle, .. } = self;
        let mut label = format!("{part} by {}", method.name());
        if let Some(block) = block {
            label += &format!(", {}", wirepath_report::number::bytes(*block as u64));
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
pub(crate) fn cases(part: Part) -> Vec<Case> {
    let by = |method: Method| Case::new(part, method);
    let (loops, streams) = (by(Method::ReadWrite), by(Method::Streams));
    let mut cases: Vec<Case> = Vec::new();
    match part {
        Part::FileToSocket | Part::SocketToFile | Part::SocketToSocket => {
            cases.extend(BLOCKS.map(|block| loops.of(block)));
            cases.push(loops.of(BLOCK).touched());
            cases.extend((part == Part::FileToSocket).then(|| by(Method::Sendfile)));
            if part == Part::SocketToSocket {
                cases.push(by(Method::Splice));
                cases.extend(BLOCKS.map(|block| by(Method::Uring).of(block)));
            }
            cases.extend([streams, streams.touched()]);
            if part == Part::SocketToSocket {
                cases.extend(Program::ALL.map(|program| by(Method::Program(program))));
            }
        }
        Part::Merge => {
            cases.extend(BLOCKS.iter().flat_map(|block| [loops.of(*block), streams.of(*block)]));
            cases.extend([loops.of(BLOCK).touched(), streams.of(BLOCK).touched()]);
        }
        Part::Stripe | Part::Random => {
            for links in OUTPUTS {
                cases.extend([loops.of(BLOCK).with(links), streams.of(BLOCK).with(links)]);
            }
            let most = OUTPUTS[OUTPUTS.len() - 1];
            cases.extend([loops, streams].map(|case| case.of(BLOCK).with(most).touched()));
        }
        Part::Mirror => {
            for links in OUTPUTS {
                cases.extend([loops.of(BLOCK).with(links), streams.with(links)]);
            }
            cases.extend([loops.of(BLOCK), streams].map(|case| case.with(OUTPUTS[2]).touched()));
        }
        Part::UdpMirror => {
            for burst in [1, BURST] {
                let of_burst = |case: Case| case.of(burst * DATAGRAM).with(RECEIVERS);
                cases.extend([of_burst(loops), of_burst(streams)]);
            }
            cases.push(streams.of(BURST * DATAGRAM).with(RECEIVERS).touched());
        }
        Part::Crowd => {
            for method in [loops.of(BLOCK), by(Method::Splice), streams] {
                cases.extend([method.with(FEW), Case { idle: IDLE, ..method.with(BUSY) }]);
            }
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_the_stream_service_and_no_cell_is_there_twice() {
        for part in Part::ALL {
            let cases = cases(part);
            assert!(cases.iter().any(|case| case.method == Method::Streams), "{part}");
            let mut labels: Vec<String> = cases.iter().map(Case::label).collect();
            labels.sort();
            labels.dedup();
            assert_eq!(labels.len(), cases.len(), "{part}");
        }
        assert_eq!(cases(Part::SocketToSocket).len(), 13);
    }
}
