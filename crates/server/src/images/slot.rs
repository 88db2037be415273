//! The segments of an open image: read when a playback requests them, and shared by all playbacks.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use wirepath_media::image::SegmentEntry;
use wirepath_playback::Segment;

/// Time for which a failure to read a segment is remembered, so that all who wait for the segment see it.
const READ_FAILURE: Duration = Duration::from_secs(1);

/// Slot of a segment.
pub(super) struct Slot {
    pub(super) entry: SegmentEntry,
    /// True if the checksum was verified since the image was opened.
    pub(super) verified: bool,
    /// True while a thread of the pool reads it.
    pub(super) loading: bool,
    pub(super) loaded: Loaded,
    /// True while page memory holds it.
    pub(super) held: bool,
    /// Number of playbacks that took the segment since page memory last checked it.
    taken: u32,
}

/// A segment that was read. It is held here until a playback takes it.
pub(super) enum Loaded {
    No,
    Fresh(Arc<Segment>),
    Shared(Weak<Segment>),
    Failed { at: Instant, reason: Arc<str> },
}

impl Slot {
    pub(super) fn new(entry: SegmentEntry, verified: bool) -> Slot {
        Slot { entry, verified, loading: false, loaded: Loaded::No, held: false, taken: 0 }
    }

    /// Takes the segment, if it is loaded, for a playback that holds it from now on.
    pub(super) fn take(&mut self) -> Option<Arc<Segment>> {
        let segment = match &self.loaded {
            Loaded::Fresh(segment) => Arc::clone(segment),
            Loaded::Shared(segment) => segment.upgrade()?,
            Loaded::No | Loaded::Failed { .. } => return None,
        };
        self.loaded = Loaded::Shared(Arc::downgrade(&segment));
        self.taken = self.taken.saturating_add(1);
        Some(segment)
    }

    /// Returns whether the segment is loaded, or recently failed to load.
    pub(super) fn is_there(&self) -> bool {
        matches!(self.loaded, Loaded::Fresh(_)) || self.is_shared() || self.failed().is_some()
    }

    /// Returns whether a playback holds the segment.
    pub(super) fn is_shared(&self) -> bool {
        matches!(&self.loaded, Loaded::Shared(segment) if segment.strong_count() > 0)
    }

    /// Returns whether a playback holds the segment, or will take it.
    pub(super) fn is_needed(&self) -> bool {
        self.loading || matches!(self.loaded, Loaded::Fresh(_)) || self.is_shared()
    }

    /// Returns whether the segment should stay although no playback holds it, because several playbacks took
    /// it recently. Resets the count.
    pub(super) fn is_popular(&mut self) -> bool {
        std::mem::take(&mut self.taken) > 1
    }

    /// Drops a segment that no playback took.
    pub(super) fn forget_untaken(&mut self) {
        if matches!(self.loaded, Loaded::Fresh(_)) {
            self.loaded = Loaded::No;
        }
    }

    /// Reason of a recent failure to read the segment. After some time, reading is tried again.
    pub(super) fn failed(&self) -> Option<Arc<str>> {
        match &self.loaded {
            Loaded::Failed { at, reason } if at.elapsed() < READ_FAILURE => Some(Arc::clone(reason)),
            _ => None,
        }
    }
}
