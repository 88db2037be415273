//! Cases of few and of many sinks that receive data changed by a handler.

use super::{BLOCK, LINKS, RECEIVERS};
use crate::result::{Method, Part, RELAY_DATAGRAM, RelayCase};

/// Numbers of sinks of one source.
const SINKS: [u32; 4] = [1, LINKS, RECEIVERS, 256];

/// Datagrams that arrive together: about as many as a train may have.
const LONG_TRAIN: u64 = 48;

/// Cases of a careful loop and of the stream service, both changing each byte, for each number of sinks.
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
