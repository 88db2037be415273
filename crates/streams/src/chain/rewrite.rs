//! Rewriting: new records in memory of the stream.

use std::mem;

use bytes::BytesMut;
use wirepath_datapath::Blocks;

use super::gate::Gate;
use super::{BLOCK, Memory};
use crate::handler::{HandlerError, Rewrite};
use crate::record::{Piece, Run};

/// Largest room that is taken from a block for short pieces, so that most of each such block is used.
const SHORT: usize = BLOCK / 4;

/// Appends the new records to `out`, including the records before an error; records of one length form one
/// run.
pub(super) fn rewrite<'a>(
    handler: &mut dyn Rewrite,
    gate: &mut Gate,
    pieces: impl Iterator<Item = Piece<'a>>,
    mut written: Written<'_>,
) -> Result<(), HandlerError> {
    let rewritten = write(handler, gate, pieces, &mut written);
    written.put();
    rewritten
}

fn write<'a>(
    handler: &mut dyn Rewrite,
    gate: &mut Gate,
    pieces: impl Iterator<Item = Piece<'a>>,
    written: &mut Written<'_>,
) -> Result<(), HandlerError> {
    for piece in pieces {
        if !gate.lets_in(piece.begins) {
            continue;
        }
        let room = handler.room(piece.length());
        let space = written.space(room);
        match gate.judge(piece, handler.rewrite(piece, space))?.flatten() {
            Some(length) if length > room => {
                let error = format!("it wrote {length} bytes where it said {room} at most");
                return Err(HandlerError::Failed(error));
            }
            Some(length) => written.add(length, piece),
            None => {}
        }
    }
    Ok(())
}

/// Whole records of one length at the front of a block.
///
/// A part of a block keeps the whole block in memory. Records that turn out much shorter than a long room are
/// copied out of the block, which is then reused, so that bytes that wait for outputs take at most about four
/// times their size in memory.
pub(super) struct Written<'a> {
    short_blocks: &'a mut Blocks,
    long_blocks: &'a mut Blocks,
    is_long: bool,
    bytes: usize,
    record_bytes: usize,
    out: &'a mut Vec<Run<Memory>>,
}

impl<'a> Written<'a> {
    pub(super) fn new(
        short_blocks: &'a mut Blocks,
        long_blocks: &'a mut Blocks,
        out: &'a mut Vec<Run<Memory>>,
    ) -> Written<'a> {
        Written { short_blocks, long_blocks, is_long: false, bytes: 0, record_bytes: 0, out }
    }

    fn blocks(&mut self) -> &mut Blocks {
        if self.is_long { self.long_blocks } else { self.short_blocks }
    }

    /// Space for `room` bytes after the written bytes.
    fn space(&mut self, room: usize) -> &mut [u8] {
        let is_long = room > SHORT;
        let written = self.bytes;
        if is_long != self.is_long || self.blocks().rest() - written < room {
            self.put();
        }
        self.is_long = is_long;
        let written = self.bytes;
        &mut self.blocks().room(written + room)[written..]
    }

    /// Adds a record, or a piece of a record, that was written after the others.
    fn add(&mut self, length: usize, piece: Piece<'_>) {
        let is_record = piece.begins && piece.ends && length > 0;
        if is_record && (self.bytes == 0 || length == self.record_bytes) {
            (self.bytes, self.record_bytes) = (self.bytes + length, length);
            return;
        }
        let at = self.put_before(length);
        if is_record && at == 0 {
            (self.bytes, self.record_bytes) = (length, length);
            return;
        }
        let is_copied = at > 0 || self.copies(length);
        let bytes = Memory::Own(self.part(at, length, is_copied));
        self.out.push(Run::single(bytes, piece.begins, piece.ends));
    }

    fn put(&mut self) {
        self.put_before(0);
    }

    /// Appends the records before the last `behind` bytes, which follow next, to `out`. Returns the position
    /// of these last bytes in the block.
    fn put_before(&mut self, behind: usize) -> usize {
        let bytes = mem::take(&mut self.bytes);
        if bytes == 0 {
            return 0;
        }
        let is_copied = self.copies(bytes + behind);
        let part = Memory::Own(self.part(0, bytes, is_copied));
        self.out.push(Run { bytes: part, record_bytes: self.record_bytes, begins: true, ends: true });
        if is_copied { bytes } else { 0 }
    }

    /// Returns whether a part of this length is short enough to be copied out of the block.
    fn copies(&self, length: usize) -> bool {
        self.is_long && length < self.long_blocks.rest() / 4
    }

    /// Bytes at a position in the block, which must be the front unless they are copied.
    fn part(&mut self, at: usize, length: usize, is_copied: bool) -> BytesMut {
        if is_copied {
            BytesMut::from(&self.blocks().room(at + length)[at..at + length])
        } else {
            self.blocks().take(length)
        }
    }
}
