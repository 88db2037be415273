//! Rewriting: new records in memory of the stream.

use wirepath_datapath::Blocks;

use super::Memory;
use super::gate::Gate;
use crate::handler::{HandlerError, Rewrite};
use crate::record::{Piece, Run};

/// New records, also of those before an error; those of one length are one run.
pub(super) fn rewrite(
    handler: &mut dyn Rewrite,
    gate: &mut Gate,
    blocks: &mut Blocks,
    run: &Run<Memory>,
    out: &mut Vec<Run<Memory>>,
) -> Result<(), HandlerError> {
    let mut written = Written { blocks, bytes: 0, record_bytes: 0, out };
    let rewritten = write(handler, gate, run, &mut written);
    written.put();
    rewritten
}

fn write(
    handler: &mut dyn Rewrite,
    gate: &mut Gate,
    run: &Run<Memory>,
    written: &mut Written<'_>,
) -> Result<(), HandlerError> {
    for piece in run.pieces() {
        if !gate.lets_in(piece.begins) {
            continue;
        }
        let room = handler.room(piece.bytes.len());
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
struct Written<'a> {
    blocks: &'a mut Blocks,
    bytes: usize,
    record_bytes: usize,
    out: &'a mut Vec<Run<Memory>>,
}

impl Written<'_> {
    /// Space for `room` bytes behind what is written.
    fn space(&mut self, room: usize) -> &mut [u8] {
        if self.blocks.rest() - self.bytes < room {
            self.put();
        }
        &mut self.blocks.room(self.bytes + room)[self.bytes..]
    }

    /// Adds a record, or a piece of one, that was written behind the others.
    fn add(&mut self, length: usize, piece: Piece<'_>) {
        let is_record = piece.begins && piece.ends && length > 0;
        if !is_record || self.bytes > 0 && length != self.record_bytes {
            self.put();
        }
        if is_record {
            (self.bytes, self.record_bytes) = (self.bytes + length, length);
        } else {
            let bytes = Memory::Own(self.blocks.take(length));
            self.out.push(Run::single(bytes, piece.begins, piece.ends));
        }
    }

    fn put(&mut self) {
        if self.bytes > 0 {
            let bytes = Memory::Own(self.blocks.take(self.bytes));
            self.out.push(Run { bytes, record_bytes: self.record_bytes, begins: true, ends: true });
            self.bytes = 0;
        }
    }
}
