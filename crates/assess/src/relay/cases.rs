//! Cases: parts of the experiment, and their methods.

mod handlers;
mod judged;
mod sinks;

use crate::result::{Method, OrderKind, Part, Program, RELAY_DATAGRAM, RelayCase};

/// Concurrent clients, servers and inputs, as in the paper.
pub(crate) const LINKS: u32 = 16;

/// Receivers of datagrams.
pub(crate) const RECEIVERS: u32 = 64;

/// Streams of the crowd: reference without a crowd, and the busy and idle streams of the crowd.
pub(crate) const FEW: u32 = 10;
pub(crate) const BUSY: u32 = 1000;
pub(crate) const IDLE: u32 = 10_000;

/// Block size of methods that are measured with a single size.
const BLOCK: u64 = 64 << 10;

/// Block sizes of `read` and `write` loops, and record sizes of merges.
const BLOCKS: [u64; 3] = [4 << 10, BLOCK, 1 << 20];

/// The same with handlers, of careful loops, of which the best counts.
const HANDLED_BLOCKS: [u64; 3] = [BLOCK, 256 << 10, 1 << 20];

/// The same for each number of sinks.
const SINK_BLOCKS: [u64; 2] = [BLOCK, 1 << 20];

/// Datagrams that arrive together: 20 ms of 8 Mb/s, which servers send at once; other cases have single
/// datagrams.
pub(crate) const BURST: u64 = 16;

/// Sizes of requested files.
const SIZES: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Record size for the comparison of orders, as in the paper.
const ORDERED: u64 = 4 << 10;

/// Outputs of one input.
const OUTPUTS: [u32; 3] = [1, 4, 16];

impl RelayCase {
    fn new(part: Part, method: Method) -> RelayCase {
        RelayCase {
            part,
            method,
            touch: false,
            block: None,
            links: LINKS,
            idle: 0,
            handler: None,
            order: None,
            passed: None,
        }
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

pub(crate) use handlers::{PEEKED_RECORD, PLAIN, handler_cases};

/// Cases of a part, except handlers other than the dummy.
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
            cases.push(by(Method::Trains).of(BURST * RELAY_DATAGRAM).with(RECEIVERS));
            cases.push(streams.of(BURST * RELAY_DATAGRAM).with(RECEIVERS).touched());
            cases.extend(sinks::by_sinks(part));
        }
        Part::Files | Part::FileProxy => {
            let plain = by(Method::Plain);
            for size in SIZES {
                let sendfile = (part == Part::Files).then(|| by(Method::Sendfile));
                let all = [plain, plain.touched(), streams, streams.touched()].into_iter().chain(sendfile);
                cases.extend(all.map(|case| case.of(size)));
            }
        }
        Part::Orders => {
            cases.push(loops.of(ORDERED));
            cases.extend(OrderKind::ALL.map(|order| RelayCase { order: Some(order), ..streams.of(ORDERED) }));
        }
        Part::KernelTcp | Part::KernelUdp => cases.extend(judged::cases(part)),
        Part::KernelMirror => cases.extend(judged::mirrors()),
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
            let cases: Vec<RelayCase> = cases(part).into_iter().chain(handler_cases(part)).collect();
            assert!(cases.iter().any(|case| case.method == Method::Streams), "{part}");
            let mut labels: Vec<String> = cases.iter().map(RelayCase::label).collect();
            labels.sort();
            labels.dedup();
            assert_eq!(labels.len(), cases.len(), "{part}");
        }
        assert_eq!(cases(Part::SocketToSocket).len(), 13);
    }
}
