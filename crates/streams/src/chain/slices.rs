//! Records in slices: pieces stay in their memory until the record is complete, and are shown as one list.

use std::mem;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::gate::Gate;
use super::rewrite::{self, Written};
use super::{Memory, put_parts};
use crate::handler::{Frame, FramePart, HandlerError, Read, Rewrite, Select, Verdict};
use crate::record::{Piece, Run};

/// Slices that a record may have before short slices are copied together.
const FEW: usize = 16;

/// Largest total size of two neighbouring slices that are copied together when a record has more slices. So
/// the number of slices is small for the record's length, even if it comes in very short pieces.
const SHORT: usize = 4096;

/// Slices of the current record that have arrived, in order.
#[derive(Debug, Default)]
pub(super) struct Slices {
    slices: Vec<Memory>,
    length: usize,
}

impl Slices {
    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn clear(&mut self) {
        *self = Slices::default();
    }

    /// Adds the next piece. Pieces that are adjacent in memory form one slice.
    pub(super) fn add(&mut self, piece: Memory) {
        self.length += piece.len();
        let may_copy = self.slices.len() >= FEW;
        let rest = match self.slices.last_mut() {
            Some(last) => join(last, piece, may_copy),
            None => Some(piece),
        };
        self.slices.extend(rest.filter(|piece| !piece.is_empty()));
    }

    /// Takes the slices of the record, which has ended.
    pub(super) fn take(&mut self) -> Vec<Memory> {
        mem::take(self).slices
    }
}

/// Joins a piece to the slice before it if they are adjacent in memory, or are short and may be copied;
/// otherwise returns the piece.
fn join(last: &mut Memory, piece: Memory, may_copy: bool) -> Option<Memory> {
    let is_copied = may_copy && last.len() + piece.len() <= SHORT;
    match (last, piece) {
        (Memory::Own(last), Memory::Own(piece)) if last.as_ptr_range().end == piece.as_ptr() => {
            last.unsplit(piece);
            None
        }
        (last, piece) if is_copied => {
            append(last, &piece);
            None
        }
        (_, piece) => Some(piece),
    }
}

/// Appends bytes to a slice; the slice is copied unless it has room.
fn append(last: &mut Memory, piece: &[u8]) {
    match last {
        Memory::Own(last) if last.capacity() - last.len() >= piece.len() => last.extend_from_slice(piece),
        _ => {
            let mut joined = BytesMut::with_capacity(SHORT);
            joined.extend_from_slice(last);
            joined.extend_from_slice(piece);
            *last = Memory::Own(joined);
        }
    }
}

fn views(slices: &[Memory]) -> Vec<&[u8]> {
    slices.iter().map(|slice| &slice[..]).collect()
}

/// Shows a record to the handler. A record that passes keeps its slices.
pub(super) fn read(
    handler: &mut dyn Read,
    gate: &mut Gate,
    slices: Vec<Memory>,
    out: &mut Vec<Run<Memory>>,
) -> Result<(), HandlerError> {
    let views = views(&slices);
    let piece = Piece::in_slices(&views);
    if gate.judge(piece, handler.read(piece))? == Some(Verdict::Pass) {
        let last = slices.len() - 1;
        let run = |(index, slice)| Run::single(slice, index == 0, index == last);
        out.extend(slices.into_iter().enumerate().map(run));
    }
    Ok(())
}

/// Asks the handler for the parts to keep. Kept parts are slices of the record's slices.
pub(super) fn select(
    handler: &mut dyn Select,
    gate: &mut Gate,
    parts: &mut Vec<FramePart>,
    slices: Vec<Memory>,
    out: &mut Vec<Run<Memory>>,
) -> Result<(), HandlerError> {
    let slices: Vec<Bytes> = slices.into_iter().map(Memory::freeze).collect();
    let selected = {
        let views: Vec<&[u8]> = slices.iter().map(|slice| &slice[..]).collect();
        let piece = Piece::in_slices(&views);
        let mut frame = Frame::new(piece.length(), parts, &slices);
        gate.judge(piece, handler.select(piece, &mut frame))?
    };
    if selected.is_some() {
        put_parts((true, true), parts, |range, put| each_in(&slices, range, put), out);
    }
    Ok(())
}

/// Calls `put` with each part of a range that lies in one slice; with an empty part for an empty range.
fn each_in(slices: &[Bytes], range: Range<usize>, put: &mut dyn FnMut(Bytes)) {
    if range.is_empty() {
        return put(Bytes::new());
    }
    let mut begin = 0;
    for slice in slices {
        let end = begin + slice.len();
        let (from, to) = (range.start.max(begin), range.end.min(end));
        if from < to {
            put(slice.slice(from - begin..to - begin));
        }
        begin = end;
    }
}

pub(super) fn rewrite(
    handler: &mut dyn Rewrite,
    gate: &mut Gate,
    slices: &[Memory],
    written: Written<'_>,
) -> Result<(), HandlerError> {
    let views = views(slices);
    rewrite::rewrite(handler, gate, std::iter::once(Piece::in_slices(&views)), written)
}

#[cfg(test)]
mod tests;
