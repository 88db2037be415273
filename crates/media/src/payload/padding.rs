//! Padding of packets (RFC 3550 section 5.1), so that all packets of a picture have the length of a full packet:
//! then the pictures that are stored one after another can leave in one call.

use super::{End, Payloads, Piece};
use crate::rtp::MAX_PADDING;
use crate::track::Extent;

/// Padding of so many bytes: zeros, and the number last.
pub fn padding_of(padding: u8) -> impl Iterator<Item = u8> {
    (0..padding).map(move |index| if index + 1 == padding { padding } else { 0 })
}

/// Parts of a unit, each with the bytes of padding of its packet.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    body: Extent,
    /// Bytes of a part and its padding.
    room: u64,
    count: u64,
    /// Bytes of padding of all parts.
    padding: u64,
    next: u64,
}

impl Payloads {
    /// Adds padding to the payloads of video from now on, at most so many bytes.
    pub fn permit_padding(&mut self, bytes: usize) {
        self.padding_left = bytes;
    }

    /// Bytes of padding that may still be added.
    pub fn padding_left(&self) -> usize {
        self.padding_left
    }

    /// Divides the body of a unit into parts of `room` bytes for packets. The last part is shorter, unless padding
    /// fills all packets: the padding is spread evenly, and each packet has some.
    pub(super) fn divide(&mut self, body: Extent, room: usize) -> Parts {
        let room = room.max(2) as u64;
        let count = body.length.div_ceil(room - 1);
        let padding = count * room - body.length;
        let fits = padding <= count * MAX_PADDING as u64 && padding <= self.padding_left as u64;
        if !fits || body.length.is_multiple_of(room) {
            return Parts { body, room, count: body.length.div_ceil(room), padding: 0, next: 0 };
        }
        self.padding_left -= padding as usize;
        Parts { body, room, count, padding, next: 0 }
    }

    /// Ends the open payload, after padding it to `limit` bytes if that is possible.
    pub(super) fn end_filled(&mut self, timestamp: u64, marker: bool, limit: usize) {
        let padding = limit.saturating_sub(self.length);
        let fits = padding <= MAX_PADDING.min(self.padding_left);
        self.padding_left -= if fits { padding } else { 0 };
        self.end_padded(timestamp, marker, if fits { padding as u8 } else { 0 });
    }

    /// Ends the open payload after so many bytes of padding.
    pub(super) fn end_padded(&mut self, timestamp: u64, marker: bool, padding: u8) {
        if padding > 0 {
            self.pieces.push(Piece::Padding(padding));
        }
        let length = std::mem::take(&mut self.length) + usize::from(padding);
        self.ends.push(End { pieces: self.pieces.len(), length, padding, timestamp, marker });
    }

    /// Place after the last payload.
    pub(super) fn mark(&self) -> Mark {
        Mark { pieces: self.pieces.len(), ends: self.ends.len(), padding_left: self.padding_left }
    }

    /// Removes the payloads after a place.
    pub(super) fn return_to(&mut self, mark: Mark) {
        self.pieces.truncate(mark.pieces);
        self.ends.truncate(mark.ends);
        (self.length, self.padding_left) = (0, mark.padding_left);
    }

    /// Lengths of the payloads after a place.
    pub(super) fn lengths_after(&self, mark: Mark) -> impl Iterator<Item = usize> {
        self.ends[mark.ends..].iter().map(|end| end.length)
    }
}

/// Place in a list of payloads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pieces: usize,
    ends: usize,
    padding_left: usize,
}

impl Iterator for Parts {
    type Item = (Extent, u8);

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.next;
        if index == self.count {
            return None;
        }
        self.next += 1;
        // The padding before part `index`: the numbers of two parts differ by at most one.
        let before = |index: u64| self.padding * index / self.count;
        let start = index * self.room - before(index);
        let end = (self.next * self.room - before(self.next)).min(self.body.length);
        let padding = before(self.next) - before(index);
        Some((Extent { offset: self.body.offset + start, length: end - start }, padding as u8))
    }
}
