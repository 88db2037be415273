//! Cases of few and of many sinks that receive data changed by a handler.

use super::{LINKS, RECEIVERS, SINK_BLOCKS};
use crate::result::{Method, Part, RELAY_DATAGRAM, RelayCase};

/// Numbers of sinks of one source.
const SINKS: [u32; 4] = [1, LINKS, RECEIVERS, 256];

/// Datagrams that arrive together: about as many as a train may have.
const LONG_TRAIN: u64 = 48;

/// Cases of careful loops and of the stream service, which change each byte, for each number of sinks.
pub(super) fn by_sinks(part: Part) -> impl Iterator<Item = RelayCase> {
    let by = |method| RelayCase::new(part, method).touched();
    let (loops, streams) = match part {
        Part::UdpMirror => {
            let of_train = |method| by(method).of(LONG_TRAIN * RELAY_DATAGRAM);
            (vec![of_train(Method::ReadWrite), of_train(Method::Trains)], of_train(Method::Streams))
        }
        _ => (SINK_BLOCKS.map(|block| by(Method::ReadWrite).of(block)).to_vec(), by(Method::Streams)),
    };
    let cases: Vec<RelayCase> = loops.into_iter().chain([streams]).collect();
    SINKS.into_iter().flat_map(move |sinks| cases.clone().into_iter().map(move |case| case.with(sinks)))
}
