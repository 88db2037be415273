//! Cases of few and of many sinks, to which what a handler has changed goes.

use super::{BLOCK, LINKS, RECEIVERS};
use crate::result::{Method, Part, RELAY_DATAGRAM, RelayCase};

/// Sinks of one source.
const SINKS: [u32; 4] = [1, LINKS, RECEIVERS, 256];

/// Datagrams that arrive together: about as many as one train may have.
const LONG_TRAIN: u64 = 48;

/// A careful loop and the stream service, both of which change each byte, for each number of sinks.
pub(super) fn by_sinks(part: Part) -> impl Iterator<Item = RelayCase> {
    let by = |method| RelayCase::new(part, method).touched();
    let (reads, streams) = match part {
        Part::UdpMirror => {
            let block = LONG_TRAIN * RELAY_DATAGRAM;
            (by(Method::ReadWrite).of(block), by(Method::Streams).of(block))
        }
        _ => (by(Method::ReadWrite).of(BLOCK), by(Method::Streams)),
    };
    SINKS.into_iter().flat_map(move |sinks| [reads.with(sinks), streams.with(sinks)])
}
