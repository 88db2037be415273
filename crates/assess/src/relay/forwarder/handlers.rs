//! Measured handlers of the stream service, which do the same as the functions of loops
//! ([`super::function`]).

use std::hint::black_box;

use wirepath_streams::handlers::Touch;
use wirepath_streams::{
    Common, Frame, Handler, HandlerError, Peek, Piece, Reach, Read, Rewrite, Select, Verdict,
};

use super::function::sum;
use crate::relay::task::{HEADER, LEFT_OUT, MASK, PEEKED, Task};
use crate::result::HandlerKind;

/// Handler of a task, if it has one.
pub(super) fn handler(task: &Task) -> Option<Handler> {
    let limit = task.block_bytes;
    let reading = |reach| Handler::Read(Box::new(Reading { reach, sum: 0 }));
    Some(match task.handler {
        None if task.touch => Handler::Modify(Box::new(Touch::new(MASK))),
        None => return None,
        Some(HandlerKind::Read) => reading(Reach::Pieces),
        Some(HandlerKind::Slices) => reading(Reach::Slices { limit }),
        Some(HandlerKind::Gathered) => reading(Reach::Records { limit }),
        Some(HandlerKind::Peek) => Handler::Peek(Box::new(Peeking { sum: 0 })),
        Some(HandlerKind::Select) => Handler::Select(Box::new(Selecting { position: 0 })),
        Some(HandlerKind::Grow) => Handler::Rewrite(Box::new(Growing)),
    })
}

struct Reading {
    reach: Reach,
    sum: u64,
}

impl Common for Reading {
    fn name(&self) -> &'static str {
        "read"
    }

    fn reach(&self) -> Reach {
        self.reach
    }
}

impl Read for Reading {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        self.sum = black_box(piece.slices().fold(self.sum, |all, slice| all ^ sum(slice)));
        Ok(Verdict::Pass)
    }
}

struct Peeking {
    sum: u64,
}

impl Common for Peeking {
    fn name(&self) -> &'static str {
        "peek"
    }
}

impl Peek for Peeking {
    fn length(&self) -> usize {
        PEEKED
    }

    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError> {
        self.sum = black_box(self.sum ^ sum(head));
        Ok(Verdict::Pass)
    }
}

/// Drops the first bytes of each record.
struct Selecting {
    /// Received bytes of the current record.
    position: usize,
}

impl Common for Selecting {
    fn name(&self) -> &'static str {
        "select"
    }
}

impl Select for Selecting {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        if piece.begins {
            self.position = 0;
        }
        let length = piece.length();
        frame.keep(LEFT_OUT.saturating_sub(self.position).min(length)..length);
        self.position += length;
        Ok(())
    }
}

/// Changes all bytes, and prepends a header to each record.
struct Growing;

impl Common for Growing {
    fn name(&self) -> &'static str {
        "grow"
    }
}

impl Rewrite for Growing {
    fn room(&self, length: usize) -> usize {
        HEADER.len() + length
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let mut written = 0;
        if piece.begins {
            out[..HEADER.len()].copy_from_slice(&HEADER);
            written = HEADER.len();
        }
        for slice in piece.slices() {
            let out = &mut out[written..written + slice.len()];
            out.iter_mut().zip(slice).for_each(|(out, byte)| *out = byte ^ MASK);
            written += slice.len();
        }
        Ok(Some(written))
    }
}
