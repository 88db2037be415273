//! Model of SENDFILEW, from the header's prose.

use std::ops::Range;

use rustix::io::Errno;

use crate::call::{PACKET_MAX, edge, size};
use crate::random::Random;

/// One part of a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the source that it comes from.
    pub source: usize,
    /// Of its source.
    pub range: Range<u64>,
    /// True if it is to be copied (of memory only).
    pub is_copied: bool,
    /// True if a packet ends with it.
    pub is_end: bool,
}

/// Outcome of a vector: the packets that arrive, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Packets, each of ranges of sources; over TCP their borders have no meaning.
    pub packets: Vec<Vec<(usize, Range<u64>)>>,
    /// The call's answer.
    pub answer: Result<(), Errno>,
}

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Parts of pages that a packet may have.
pub const PIECES_MAX: u64 = 160;

impl Outcome {
    /// Over UDP: whole packets, up to the first that cannot be sent. `lengths` are those of the sources.
    pub fn over_udp(parts: &[Part], lengths: &[u64]) -> Outcome {
        let mut outcome = Outcome { packets: Vec::new(), answer: Ok(()) };
        for parts in parts.split_inclusive(|part| part.is_end) {
            let length: u64 = parts.iter().map(|part| part.range.end - part.range.start).sum();
            let mut sizes = parts.iter().scan(0, |sum, part| {
                *sum += part.range.end - part.range.start;
                Some((part, *sum))
            });
            // The first part that cannot be had, or makes it too long.
            let answer = sizes.find_map(|(part, sum)| match part.range.end > lengths[part.source] {
                _ if sum > PACKET_MAX => Some(Errno::MSGSIZE),
                true => Some(Errno::NODATA),
                false => None,
            });
            if let Some(answer) = answer {
                outcome.answer = Err(answer);
                break;
            }
            debug_assert!(length <= PACKET_MAX);
            outcome.packets.push(parts.iter().map(|part| (part.source, part.range.clone())).collect());
        }
        outcome
    }

    /// Over TCP: all bytes, up to the first that is not there.
    pub fn over_tcp(parts: &[Part], lengths: &[u64]) -> Outcome {
        let mut sent = Vec::new();
        let mut answer = Ok(());
        for part in parts {
            let end = part.range.end.min(lengths[part.source]);
            sent.push((part.source, part.range.start.min(end)..end));
            if end < part.range.end {
                answer = Err(Errno::NODATA);
                break;
            }
        }
        Outcome { packets: vec![sent], answer }
    }

    /// Bytes of all packets.
    pub fn bytes(&self) -> u64 {
        self.packets.iter().flatten().map(|(_, range)| range.end - range.start).sum()
    }
}

/// Parts that the module must take, of two files and, last, memory, so long each; a file may be too short
/// now and then. Every second vector has packets of one size, which may leave as trains.
pub fn random_parts(random: &mut Random, lengths: [u64; 3]) -> Vec<Part> {
    if random.once_in(2) { equal_packets(random, lengths) } else { any_packets(random, lengths) }
}

/// Packets of one size: payload of one source, one after the other, most often behind a header; now and then a
/// packet of another size between them.
fn equal_packets(random: &mut Random, lengths: [u64; 3]) -> Vec<Part> {
    let source = random.below(3) as usize;
    let header = if random.once_in(3) { 0 } else { 1 + random.below(40) };
    let payload = size(random, 2000);
    let mut start = edge(random, lengths[source] - 1);
    let mut parts = Vec::new();
    for _ in 0..1 + random.below(100) {
        let payload = if random.once_in(30) { size(random, 2000) } else { payload };
        if header > 0 {
            let at = random.below(lengths[2] - header);
            parts.push(Part { source: 2, range: at..at + header, is_copied: true, is_end: false });
        }
        if start + payload > lengths[source] && !(source != 2 && random.once_in(5)) {
            start = random.below(lengths[source] - payload);
        }
        parts.push(Part { source, range: start..start + payload, is_copied: false, is_end: true });
        start = (start + payload).min(lengths[source] - 1);
    }
    parts
}

fn any_packets(random: &mut Random, lengths: [u64; 3]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut pieces = 0;
    for _ in 0..1 + random.below(30) {
        let source = random.below(3) as usize;
        let start = edge(random, lengths[source] - 1);
        let most = if random.once_in(5) { 30_000 } else { 2000 };
        let length = size(random, most);
        let is_memory = source == 2;
        let end = if is_memory || !random.once_in(60) {
            (start + length).min(lengths[source])
        } else {
            start + length
        };
        let is_end = random.once_in(3);
        parts.push(Part { source, range: start..end, is_copied: is_memory && random.once_in(2), is_end });
        pieces = if is_end { 0 } else { pieces + (end - start) / PAGE + 2 };
        if pieces + 10 > PIECES_MAX {
            break;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(source: usize, range: Range<u64>, is_end: bool) -> Part {
        Part { source, range, is_copied: false, is_end }
    }

    #[test]
    fn a_packet_ends_where_it_is_said_and_at_the_end() {
        let parts = [part(0, 0..5, false), part(1, 3..4, true), part(0, 9..10, false)];
        let outcome = Outcome::over_udp(&parts, &[10, 10]);
        assert_eq!(outcome.packets, [vec![(0, 0..5), (1, 3..4)], vec![(0, 9..10)]]);
        assert_eq!((outcome.answer, outcome.bytes()), (Ok(()), 7));
    }

    #[test]
    fn random_vectors_have_packets_of_one_size() {
        let length = |parts: &[Part]| parts.iter().map(|part| part.range.end - part.range.start).sum::<u64>();
        let mut alike = 0;
        for case in 0..200 {
            let parts = random_parts(&mut Random::of_case(1, case), [300_001, 100_000, 250_000]);
            let sizes: Vec<u64> = parts.split_inclusive(|part| part.is_end).map(length).collect();
            alike += u32::from(sizes.windows(10).any(|sizes| sizes.iter().all(|size| *size == sizes[0])));
        }
        assert!((50..150).contains(&alike), "{alike} of 200 vectors");
    }

    #[test]
    fn a_packet_is_whole_and_bytes_are_what_there_is() {
        let parts = [part(0, 0..5, true), part(1, 3..4, false), part(0, 9..12, false)];
        let outcome = Outcome::over_udp(&parts, &[10, 10]);
        assert_eq!((outcome.bytes(), outcome.answer), (5, Err(Errno::NODATA)));
        let outcome = Outcome::over_tcp(&parts, &[10, 10]);
        assert_eq!((outcome.bytes(), outcome.answer), (7, Err(Errno::NODATA)));
        let long = [part(0, 0..65_507, true), part(0, 0..65_507, false), part(0, 0..1, false)];
        let outcome = Outcome::over_udp(&long, &[1 << 20]);
        assert_eq!((outcome.bytes(), outcome.answer), (65_507, Err(Errno::MSGSIZE)));
    }
}
