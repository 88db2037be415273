//! Playbacks that wait for a segment of an image.

use std::collections::HashMap;
use std::ops::RangeBounds;

use wirepath_engine::Waker;

/// Wakers of playbacks, each with the number of the segment that it waits for. A playback waits for one at a
/// time.
#[derive(Default)]
pub(super) struct Waiters(HashMap<Waker, u32>);

impl Waiters {
    /// Keeps a waker until its segment is [taken](Waiters::take), in place of an earlier one of the same
    /// playback.
    pub(super) fn insert(&mut self, waker: &Waker, segment: u32) {
        self.0.insert(waker.clone(), segment);
    }

    /// Drops a waker.
    pub(super) fn remove(&mut self, waker: &Waker) {
        self.0.remove(waker);
    }

    /// Takes out the wakers of these segments, to be woken when no lock is held.
    #[must_use]
    pub(super) fn take(&mut self, segments: impl RangeBounds<u32>) -> Vec<Waker> {
        self.0.extract_if(|_, segment| segments.contains(segment)).map(|(waker, _)| waker).collect()
    }
}
