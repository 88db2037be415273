//! Audio frames that wait to share a packet.

use crate::track::Extent;

/// Frames for the next packet.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) frames: Vec<Extent>,
    /// Timestamp of the first frame.
    pub(super) timestamp: u64,
    /// Most frames in a packet.
    most: usize,
    /// Most bytes of all frames, including `each` bytes of overhead for each frame.
    limit: usize,
    each: usize,
    length: usize,
}

impl Waiting {
    /// Waiting frames: at most `most`, with at most `limit` bytes including `each` bytes of overhead for each
    /// frame.
    pub(super) fn new(most: usize, limit: usize, each: usize) -> Self {
        Self { frames: Vec::new(), timestamp: 0, most: most.max(1), limit, each, length: 0 }
    }

    /// Returns whether a frame fits into an empty packet.
    pub(super) fn takes(&self, frame: Extent) -> bool {
        frame.length.saturating_add(self.each as u64) <= self.limit as u64
    }

    /// Returns whether a frame fits into the packet with the waiting frames.
    pub(super) fn has_room_for(&self, frame: Extent) -> bool {
        let length = (self.length + self.each) as u64 + frame.length;
        self.frames.len() < self.most && length <= self.limit as u64
    }

    /// Timestamp of the first frame, if any waits.
    pub(super) fn first_timestamp(&self) -> Option<u64> {
        (!self.frames.is_empty()).then_some(self.timestamp)
    }

    pub(super) fn push(&mut self, frame: Extent, timestamp: u64) {
        if self.frames.is_empty() {
            self.timestamp = timestamp;
        }
        self.frames.push(frame);
        self.length += self.each + frame.length as usize;
    }

    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.length = 0;
    }
}
