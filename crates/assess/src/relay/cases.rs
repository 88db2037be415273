//! Cases: parts of the experiment, and the methods of each.

mod sinks;

use crate::result::{Method, Part, Program, RELAY_DATAGRAM, RelayCase};

/// Clients, servers and inputs at once, as in the paper.
pub(crate) const LINKS: u32 = 16;

/// Receivers of datagrams.
pub(crate) const RECEIVERS: u32 = 64;

/// Streams of the crowd: those that the others are compared with, and the busy and the idle ones of the crowd
/// itself.
pub(crate) const FEW: u32 = 10;
pub(crate) const BUSY: u32 = 1000;
pub(crate) const IDLE: u32 = 10_000;

/// Blocks of loops that read and write, and records.
const BLOCKS: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];

/// The block of those ways of which one size is enough.
const BLOCK: u64 = 64 << 10;

/// Datagrams that arrive together: as many as 20 ms of 8 Mb/s have, which servers send in one go, or each
/// alone.
pub(crate) const BURST: u64 = 16;

/// Outputs of one input.
const OUTPUTS: [u32; 3] = [1, 4, 16];

impl RelayCase {
    fn new(part: Part, method: Method) -> RelayCase {
        RelayCase { part, method, touch: false, block: None, links: LINKS, idle: 0 }
    }

    fn of(self, block: u64) -> RelayCase {
        RelayCase { block: Some(block), ..self }
    }

    fn touched(self) -> RelayCase {
        RelayCase { touch: true, ..self }
    }

    fn with(self, links: u32) -> RelayCase {
        RelayCase { links, ..self }
    }
}

/// Everything that is measured of a part.
pub(crate) fn cases(part: Part) -> Vec<RelayCase> {
    let by = |method: Method| RelayCase::new(part, method);
    let (loops, streams) = (by(Method::ReadWrite), by(Method::Streams));
    let mut cases: Vec<RelayCase> = Vec::new();
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
            cases.extend(sinks::by_sinks(part));
        }
        Part::UdpMirror => {
            for burst in [1, BURST] {
                let of_burst = |case: RelayCase| case.of(burst * RELAY_DATAGRAM).with(RECEIVERS);
                cases.extend([of_burst(loops), of_burst(streams)]);
            }
            cases.push(streams.of(BURST * RELAY_DATAGRAM).with(RECEIVERS).touched());
            cases.extend(sinks::by_sinks(part));
        }
        Part::Crowd => {
            for method in [loops.of(BLOCK), by(Method::Splice), streams] {
                cases.extend([method.with(FEW), RelayCase { idle: IDLE, ..method.with(BUSY) }]);
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
            let mut labels: Vec<String> = cases.iter().map(RelayCase::label).collect();
            labels.sort();
            labels.dedup();
            assert_eq!(labels.len(), cases.len(), "{part}");
        }
        assert_eq!(cases(Part::SocketToSocket).len(), 13);
    }
}
