//! AAC (RFC 3640, mode AAC-hbr): several access units after their AU-headers, or a fragment of an access
//! unit.

use super::aggregate::Waiting;
use super::{Payloads, TooLong, cut};
use crate::track::Extent;

/// Longest access unit: its AU-size has 13 bits (section 3.3.6).
pub(super) const MAX_ACCESS_UNIT: u64 = 8191;

/// Most access units of a packet: the AU-headers-length, in bits, has 16 bits (section 3.2.1).
const MAX_UNITS: usize = u16::MAX as usize / 16;

/// Packetizer of AAC access units.
#[derive(Clone, Debug)]
pub(super) struct Packetizer {
    limit: usize,
    waiting: Waiting,
}

impl Packetizer {
    /// Packetizer for payloads of at most `limit` bytes with at most `most` access units, and never more than
    /// 4095.
    pub(super) fn new(limit: usize, most: usize) -> Self {
        Self { limit, waiting: Waiting::new(most.min(MAX_UNITS), limit - 2, 2) }
    }

    /// Adds an access unit. It waits if it may share a packet with the next one.
    pub(super) fn push(
        &mut self,
        unit: Extent,
        timestamp: u64,
        payloads: &mut Payloads,
    ) -> Result<(), TooLong> {
        TooLong::check("AAC", unit, MAX_ACCESS_UNIT)?;
        if !self.waiting.has_room_for(unit) {
            self.flush(payloads);
        }
        if self.waiting.takes(unit) {
            self.waiting.push(unit, timestamp);
            return Ok(());
        }
        for part in cut(unit, self.limit - 4) {
            let [high, low] = header(unit);
            payloads.generate(&[0, 16, high, low]);
            payloads.refer(part);
            payloads.end(timestamp, part.end() == unit.end());
        }
        Ok(())
    }

    /// Access units that wait.
    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Adds the payload of the waiting access units.
    pub(super) fn flush(&mut self, payloads: &mut Payloads) {
        let frames = &self.waiting.frames;
        if frames.is_empty() {
            return;
        }
        payloads.generate(&((frames.len() * 16) as u16).to_be_bytes());
        frames.iter().for_each(|frame| payloads.generate(&header(*frame)));
        frames.iter().for_each(|frame| payloads.refer(*frame));
        payloads.end(self.waiting.timestamp, true);
        self.waiting.clear();
    }
}

/// AU-header: AU-size of 13 bits and AU-Index or AU-Index-delta of 3 bits, which are 0 because access units
/// are in order.
fn header(unit: Extent) -> [u8; 2] {
    ((unit.length as u16) << 3).to_be_bytes()
}
