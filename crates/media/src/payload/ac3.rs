//! AC-3 (RFC 4184): several complete frames, or a fragment of a frame.

use super::aggregate::Waiting;
use super::{Payloads, TooLong, cut};
use crate::track::Extent;

/// Frame types (section 4.1.1): complete frames; first fragment with at least 5/8 of the frame; first
/// fragment with less; further fragment.
const WHOLE: u8 = 0;
const FIRST_WITH_MOST: u8 = 1;
const FIRST: u8 = 2;
const FURTHER: u8 = 3;

/// Packetizer of AC-3 frames.
#[derive(Clone, Debug)]
pub(super) struct Packetizer {
    limit: usize,
    waiting: Waiting,
}

impl Packetizer {
    /// Packetizer for payloads of at most `limit` bytes with at most `most` frames, and never more than 255.
    pub(super) fn new(limit: usize, most: usize) -> Self {
        Self { limit, waiting: Waiting::new(most.min(255), limit - 2, 0) }
    }

    /// Adds a frame. It waits if it may share a packet with the next one. Empty frames are dropped.
    pub(super) fn push(
        &mut self,
        frame: Extent,
        timestamp: u64,
        payloads: &mut Payloads,
    ) -> Result<(), TooLong> {
        TooLong::check("AC-3", frame, u64::from(u8::MAX) * (self.limit - 2) as u64)?;
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
        let length = self.limit - 2;
        let count = frame.length.div_ceil(length as u64) as u8;
        for part in cut(frame, length) {
            let kind = match part.offset == frame.offset {
                true if u128::from(part.length) * 8 >= u128::from(frame.length) * 5 => FIRST_WITH_MOST,
                true => FIRST,
                false => FURTHER,
            };
            payloads.generate(&[kind, count]);
            payloads.refer(part);
            payloads.end(timestamp, part.end() == frame.end());
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
        payloads.generate(&[WHOLE, self.waiting.frames.len() as u8]);
        self.waiting.frames.iter().for_each(|frame| payloads.refer(*frame));
        payloads.end(self.waiting.timestamp, true);
        self.waiting.clear();
    }
}
