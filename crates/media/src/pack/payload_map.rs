//! Payload that waits for its departure times, kept as places in the asset.

use std::collections::VecDeque;

use crate::image::{PacketRun, PayloadRun};
use crate::ts::Packets;

/// Transport stream packets in order, as places in the asset without their bytes.
#[derive(Debug, Default)]
pub(super) struct PayloadMap {
    runs: VecDeque<PacketRun>,
    /// Number of packets so far, including those already taken.
    end: u64,
}

impl PayloadMap {
    pub(super) fn append(&mut self, run: &Packets<'_>) {
        let (offset, stride, packets) = (run.offset(0), run.framing().stride() as u16, run.count() as u64);
        self.end += packets;
        match self.runs.back_mut() {
            Some(last)
                if last.stride == stride && last.offset + last.packets * u64::from(stride) == offset =>
            {
                last.packets += packets;
            }
            _ => self.runs.push_back(PacketRun { offset, stride, packets }),
        }
    }

    /// Bytes of heap memory that the map holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<PacketRun>()
    }

    /// Shrinks the queue after a long look-ahead.
    pub(super) fn shrink(&mut self) {
        crate::queue::shrink(&mut self.runs);
    }

    /// Number of packets so far.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Takes the first `packets` packets.
    pub(super) fn take(&mut self, mut packets: u64) -> Vec<PayloadRun> {
        let mut taken = Vec::new();
        while packets > 0
            && let Some(first) = self.runs.front_mut()
        {
            let count = first.packets.min(packets);
            taken.push(PayloadRun::Packets(PacketRun { packets: count, ..*first }));
            first.offset += count * u64::from(first.stride);
            first.packets -= count;
            packets -= count;
            if first.packets == 0 {
                self.runs.pop_front();
            }
        }
        taken
    }
}
