//! Rewriting: new records in a buffer of the stream.

use bytes::BytesMut;

use super::gate::Gate;
use crate::handler::{HandlerError, Rewrite};
use crate::record::{Piece, Run};

/// Least size of a buffer.
const BLOCK: usize = 64 * 1024;

/// New records, also of those before an error; those of one length are one run.
pub(super) fn rewrite(
    handler: &mut dyn Rewrite,
    gate: &mut Gate,
    block: &mut BytesMut,
    run: &Run,
    out: &mut Vec<Run>,
) -> Result<(), HandlerError> {
    let mut written = Written { block, bytes: 0, record_bytes: 0, out };
    let rewritten = write(handler, gate, run, &mut written);
    written.put();
    rewritten
}

fn write(
    handler: &mut dyn Rewrite,
    gate: &mut Gate,
    run: &Run,
    written: &mut Written<'_>,
) -> Result<(), HandlerError> {
    for piece in run.pieces() {
        if !gate.lets_in(piece.begins) {
            continue;
        }
        let room = handler.room(piece.bytes.len());
        written.make_room(room);
        let space = &mut written.block[written.bytes..];
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
    block: &'a mut BytesMut,
    bytes: usize,
    record_bytes: usize,
    out: &'a mut Vec<Run>,
}

impl Written<'_> {
    /// Makes room for `room` bytes behind what is written.
    fn make_room(&mut self, room: usize) {
        if self.block.len() - self.bytes < room {
            self.put();
            if self.block.len() < room {
                *self.block = BytesMut::zeroed(room.max(BLOCK));
            }
        }
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
            self.out.push(Run::single(self.block.split_to(length).freeze(), piece.begins, piece.ends));
        }
    }

    fn put(&mut self) {
        if self.bytes > 0 {
            let bytes = self.block.split_to(self.bytes).freeze();
            self.out.push(Run { bytes, record_bytes: self.record_bytes, begins: true, ends: true });
            self.bytes = 0;
        }
    }
}
