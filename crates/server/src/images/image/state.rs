//! What changes of an image, behind its lock.

use std::collections::HashMap;
use std::ops::RangeBounds;
use std::time::Instant;

use wirepath_engine::Waker;
use wirepath_media::image::{SegmentEntry, Start};

use crate::images::segment::Files;
use crate::images::slot::Slot;
use crate::images::summary::Summary;

/// Contents of an image.
pub(super) struct State {
    /// Number of times that the image started over because it was damaged. Reading and packing name the
    /// generation that they are for, so that results for an older one change nothing.
    pub(super) generation: u32,
    /// Number of times that other files took the place of those before. Segments name the one that they were
    /// read for.
    pub(super) edition: u64,
    pub(super) files: Option<Files>,
    pub(super) slots: Vec<Slot>,
    /// The index, while packets are sent from an image that was made by it.
    pub(super) index: Option<(Files, Vec<SegmentEntry>)>,
    /// Time at which a playback could begin.
    pub(super) begun: Option<Instant>,
    pub(super) starts: Vec<Start>,
    pub(super) summary: Summary,
    /// Wakers of playbacks, each with the number of the segment that it waits for: one at a time.
    pub(super) waiters: HashMap<Waker, u32>,
}

impl State {
    /// The state of an empty image.
    pub(super) fn new(summary: Summary) -> State {
        State {
            generation: 0,
            edition: 0,
            files: None,
            slots: Vec::new(),
            index: None,
            begun: None,
            starts: Vec::new(),
            summary,
            waiters: HashMap::new(),
        }
    }

    /// Takes out the wakers of these segments, to be woken when no lock is held.
    #[must_use]
    pub(super) fn take_wakers(&mut self, segments: impl RangeBounds<u32>) -> Vec<Waker> {
        self.waiters.extract_if(|_, segment| segments.contains(segment)).map(|(waker, _)| waker).collect()
    }

    /// Takes out all references to the files, to be dropped where that may block.
    pub(super) fn empty(&mut self) -> (Option<Files>, Vec<Slot>) {
        self.starts.clear();
        (self.files.take(), std::mem::take(&mut self.slots))
    }

    /// Puts the same segments of other files in the place of those there are; answers what was there before.
    /// Playbacks keep the segments that they have, and wakers are to be woken.
    pub(super) fn replace(
        &mut self,
        files: Files,
        entries: &[SegmentEntry],
        verified: bool,
    ) -> Option<(Files, Vec<SegmentEntry>)> {
        self.edition += 1;
        let slots = entries.iter().map(|entry| Slot::new(*entry, verified)).collect();
        let before = std::mem::replace(&mut self.slots, slots);
        let entries = before.iter().map(|slot| slot.entry).collect();
        self.files.replace(files).map(|files| (files, entries))
    }
}
