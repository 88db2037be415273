//! MPEG-1 and MPEG-2 audio (RFC 2250 section 3.5): whole frames, or a fragment of one.

use super::aggregate::Waiting;
use super::{Payloads, TooLong, cut};
use crate::track::Extent;

/// Longest frame of which 16 bits can state where a fragment begins.
const MAX_FRAME: u64 = 1 << 16;

/// Frames of MPEG audio, packed into packets.
#[derive(Clone, Debug)]
pub(super) struct Packetizer {
    limit: usize,
    waiting: Waiting,
}

impl Packetizer {
    /// Packets of at most `limit` bytes with at most `most` frames.
    pub(super) fn new(limit: usize, most: usize) -> Self {
        Self { limit, waiting: Waiting::new(most, limit - 4, 0) }
    }

    /// Adds a frame. Those that may share a packet with the next one wait. An empty one is left out.
    pub(super) fn push(
        &mut self,
        frame: Extent,
        timestamp: u64,
        payloads: &mut Payloads,
    ) -> Result<(), TooLong> {
        TooLong::check("MPEG audio", frame, MAX_FRAME)?;
        if frame.length == 0 {
            return Ok(());
        }
        if !self.waiting.has_room_for(frame) {
            self.flush(payloads);
        }
        if self.waiting.takes(frame) {
            self.waiting.push(frame, timestamp);
            return Ok(());
        }
        for part in cut(frame, self.limit - 4) {
            let [high, low] = ((part.offset - frame.offset) as u16).to_be_bytes();
            payloads.generate(&[0, 0, high, low]);
            payloads.refer(part);
            payloads.end(timestamp, false);
        }
        Ok(())
    }

    /// Frames that wait for others.
    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Sends what waits.
    pub(super) fn flush(&mut self, payloads: &mut Payloads) {
        if self.waiting.frames.is_empty() {
            return;
        }
        payloads.generate(&[0; 4]);
        self.waiting.frames.iter().for_each(|frame| payloads.refer(*frame));
        payloads.end(self.waiting.timestamp, false);
        self.waiting.clear();
    }
}
