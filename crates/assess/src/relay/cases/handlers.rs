//! Cases of all kinds of handlers, and of loops that do the same.

use super::{BLOCK, HANDLED_BLOCKS, OUTPUTS};
use crate::result::{HandlerKind, Method, Part, RelayCase};

/// Buffer size of a plain program: that of `io.Copy` in Go.
pub(crate) const PLAIN: u64 = 32 << 10;

/// Buffer sizes of plain programs, including the paper's.
const BUFFERS: [u64; 2] = [4 << 10, PLAIN];

/// Size of records of which a handler sees the first bytes.
pub(crate) const PEEKED_RECORD: u64 = BLOCK;

/// Sizes of records that handlers take whole.
const RECORDS: [u64; 4] = [1 << 10, 64 << 10, 1 << 20, 4 << 20];

impl RelayCase {
    fn handled(self, handler: HandlerKind) -> RelayCase {
        RelayCase { handler: Some(handler), ..self }
    }
}

/// Cases of handlers, in addition to those of [`super::cases`].
pub(crate) fn handler_cases(part: Part) -> Vec<RelayCase> {
    use HandlerKind::{Gathered, Grow, Peek, Read, Select, Slices};
    let by = |method: Method| RelayCase::new(part, method);
    let (loops, streams) = (by(Method::ReadWrite), by(Method::Streams));
    let mut cases = Vec::new();
    match part {
        Part::FileToSocket | Part::SocketToFile | Part::SocketToSocket | Part::Mirror => {
            cases.push(streams.handled(Read));
            cases.extend(HANDLED_BLOCKS.map(|block| loops.of(block).handled(Read)));
            cases.extend(HANDLED_BLOCKS[1..].iter().map(|block| loops.of(*block).touched()));
            let plain = |buffer: &u64| {
                let of_buffer = by(Method::Plain).of(*buffer);
                [of_buffer.handled(Read), of_buffer.touched()]
            };
            cases.extend(BUFFERS.iter().flat_map(plain));
            cases.push(streams.of(BLOCK)); // baseline of peeking
            if part == Part::Mirror {
                cases.extend([loops.of(BLOCK), streams].map(RelayCase::touched)); // with fewer links
            }
        }
        Part::Merge => {
            cases.extend(
                HANDLED_BLOCKS
                    .iter()
                    .flat_map(|record| [loops, streams].map(|case| case.of(*record).handled(Read))),
            );
            cases.extend(
                HANDLED_BLOCKS[1..]
                    .iter()
                    .flat_map(|record| [loops, streams].map(|case| case.of(*record).touched())),
            );
            // Records that fill the buffer of a plain program.
            let plain = |record: &u64| {
                let both = [by(Method::Plain), streams].map(|case| case.of(*record));
                [both.map(|case| case.handled(Read)), both.map(RelayCase::touched)].concat()
            };
            cases.extend(BUFFERS.iter().flat_map(plain));
        }
        _ => return cases,
    }
    cases.extend(
        [Select, Grow, Peek]
            .iter()
            .flat_map(|handler| [loops, streams].map(|case| case.of(BLOCK).handled(*handler))),
    );
    if part == Part::SocketToSocket {
        for record in RECORDS {
            cases.extend([Slices, Gathered].map(|handler| streams.of(record).handled(handler)));
        }
    }
    let links = if part == Part::Mirror { OUTPUTS[1] } else { super::LINKS };
    cases.into_iter().map(|case| case.with(links)).collect()
}
