//! MPEG-1 and MPEG-2 audio (RFC 2250 section 3.5): several complete frames, or a fragment of a frame.

use super::aggregate::Waiting;
use super::{Payloads, TooLong, cut};
use crate::track::Extent;

/// Longest frame: offsets of fragments have 16 bits.
const MAX_FRAME: u64 = 1 << 16;

/// Packetizer of MPEG audio frames.
#[derive(Clone, Debug)]
pub(super) struct Packetizer {
    limit: usize,
    waiting: Waiting,
}

impl Packetizer {
    /// Packetizer for payloads of at most `limit` bytes with at most `most` frames.
    pub(super) fn new(limit: usize, most: usize) -> Self {
        Self { limit, waiting: Waiting::new(most, limit - 4, 0) }
    }

    /// Adds a frame. It waits if it may share a packet with the next one. Empty frames are dropped.
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

    /// Frames that wait.
    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Adds the payload of the waiting frames.
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
