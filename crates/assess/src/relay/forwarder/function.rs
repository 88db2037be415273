//! Function of a loop: does the same as the handlers of the stream service, on bytes in a buffer.

use std::hint::black_box;
use std::ops::Range;

use crate::relay::task::{HEADER, LEFT_OUT, MASK, PEEKED, Task};
use crate::result::HandlerKind;

/// Buffer that bytes are read into, processed in and written from.
pub(super) struct Buffer {
    /// Room for a header, and for a block.
    bytes: Box<[u8]>,
    block: usize,
    touch: bool,
    handler: Option<HandlerKind>,
    /// Received bytes of the current record.
    position: usize,
    /// Bytes that wait for the rest of their record.
    waiting: usize,
    /// Sum of the bytes that were read, so that the compiler cannot optimise the reads away.
    sum: u64,
}

impl Buffer {
    pub(super) fn new(task: &Task) -> Buffer {
        let Task { block_bytes, touch, handler, .. } = *task;
        let bytes = vec![0; HEADER.len() + block_bytes].into();
        Buffer { bytes, block: block_bytes, touch, handler, position: 0, waiting: 0, sum: 0 }
    }

    /// Room for the next bytes; with records, up to the end of the current record.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let has_records = !matches!(self.handler, None | Some(HandlerKind::Read));
        let most = if has_records { self.block - self.position } else { self.block };
        let from = HEADER.len() + self.waiting;
        &mut self.bytes[from..from + most]
    }

    /// Processes bytes that were read; returns the range to write, which may be empty.
    pub(super) fn handle(&mut self, read: usize) -> Range<usize> {
        let (begin, before) = (HEADER.len() + self.waiting, self.position);
        let range = begin..begin + read;
        self.position = (self.position + read) % self.block;
        let bytes = &mut self.bytes[range.clone()];
        match self.handler {
            None if self.touch => touch_all(bytes),
            None => {}
            Some(HandlerKind::Read) => self.sum = black_box(self.sum ^ sum(bytes)),
            Some(HandlerKind::Peek) if before == 0 => {
                self.sum = black_box(self.sum ^ sum(&bytes[..read.min(PEEKED)]));
            }
            Some(HandlerKind::Peek) => {}
            Some(HandlerKind::Select) => {
                return range.start + LEFT_OUT.saturating_sub(before).min(read)..range.end;
            }
            Some(HandlerKind::Grow) => {
                touch_all(bytes);
                if before == 0 {
                    self.bytes[..HEADER.len()].copy_from_slice(&HEADER);
                    return 0..range.end;
                }
            }
            Some(HandlerKind::Slices | HandlerKind::Gathered) => {
                self.waiting += read;
                return if self.position == 0 { self.rest() } else { 0..0 };
            }
        }
        range
    }

    /// Range of the waiting record, which is whole now, or whose input has ended.
    pub(super) fn rest(&mut self) -> Range<usize> {
        let range = HEADER.len()..HEADER.len() + std::mem::take(&mut self.waiting);
        self.sum = black_box(self.sum ^ sum(&self.bytes[range.clone()]));
        range
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }
}

/// Changes bytes in place, like the handler of the stream service.
pub(super) fn touch_all(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= MASK);
}

/// Reads all bytes: the exclusive or of their words.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let words = words.iter().fold(0, |sum, word| sum ^ u64::from_le_bytes(*word));
    rest.iter().fold(words, |sum, byte| sum ^ u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::task::Shape;
    use crate::result::Method;
    use std::net::{IpAddr, Ipv4Addr};

    /// Output of a buffer of 100 bytes for two records that arrive in pieces of `piece` bytes.
    fn made(handler: Option<HandlerKind>, touch: bool, piece: usize) -> Vec<u8> {
        let task = Task {
            method: Method::ReadWrite,
            shape: Shape::SocketToSocket,
            touch,
            handler,
            order: None,
            block_bytes: 100,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            outputs: 1,
            source: None,
            inputs: 1,
            judged: None,
        };
        let mut buffer = Buffer::new(&task);
        let (mut made, mut input) = (Vec::new(), &[7; 200][..]);
        while !input.is_empty() {
            let room = buffer.room();
            let read = room.len().min(piece).min(input.len());
            room[..read].copy_from_slice(&input[..read]);
            input = &input[read..];
            let range = buffer.handle(read);
            made.extend_from_slice(buffer.bytes(range));
        }
        let rest = buffer.rest();
        made.extend_from_slice(buffer.bytes(rest));
        made
    }

    #[test]
    fn records_are_handled_alike_in_whatever_pieces_they_come() {
        use HandlerKind::*;
        for piece in [1, 7, 64, 100] {
            for handler in [None, Some(Read), Some(Peek), Some(Slices), Some(Gathered)] {
                assert_eq!(made(handler, false, piece), [7; 200], "{handler:?} {piece}");
            }
            assert_eq!(made(None, true, piece), [7 ^ MASK; 200], "{piece}");
            assert_eq!(made(Some(Select), false, piece), vec![7; 2 * (100 - LEFT_OUT)], "{piece}");
            let record = [&HEADER[..], &[7 ^ MASK; 100]].concat();
            assert_eq!(made(Some(Grow), false, piece), [&record[..], &record].concat(), "{piece}");
        }
    }
}
