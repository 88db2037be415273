//! Page memory: segments that were read for sessions, and the choice of segments to drop from the page cache.
//!
//! The kernel considers sent pages more useful than pages that were read ahead, and under pressure evicts the
//! latter: an engine thread would then wait for storage. So the pages that sessions need next are kept within
//! a budget by releasing sent pages: first segments that one playback had and that no playback will need
//! soon, later segments that several playbacks had.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wirepath_counters::{Counter, Gauge, counters};
use wirepath_datapath::MappedFile;
use wirepath_engine::BlockingPool;
use wirepath_playback::Segment;

use crate::memory_limit::memory_limit;

/// Time for reading a segment before it is needed.
const READ_AHEAD_US: u64 = 2_000_000;

/// The same time while sessions need more than the budget.
const SHORT_READ_AHEAD_US: u64 = 500_000;

/// Time after reading from which a segment that no playback took is no longer waited for.
const UNTAKEN: Duration = Duration::from_secs(10);

/// Most segments that are checked for each segment that is read.
const LOOKS: usize = 64;

/// Largest folio of the page cache that may cross the border of two segments; it is released with the second
/// one.
const LARGEST_FOLIO: u64 = 512 << 10;

counters! {
    /// Counters of page memory.
    struct PageCounters;
    /// Snapshot of the counters of page memory.
    pub struct PageCounts;

    /// Media in the page cache that was read for sessions and not released.
    held_bytes: Gauge,
    /// Media that may be held before sent media is released.
    budget_bytes: Gauge,
    /// Media that was sent or packed and then released from the page cache.
    released_bytes: Counter,
}

/// Threads that read segments, and the page memory that they fill.
#[derive(Clone)]
pub(super) struct Readers {
    pub(super) pool: BlockingPool,
    pub(super) memory: Arc<PageMemory>,
}

/// Segments in the page cache.
pub(super) struct PageMemory {
    budget: u64,
    held: AtomicU64,
    /// In order of reading; segments that were checked and kept are at the end.
    segments: Mutex<VecDeque<HeldSegment>>,
    /// Parts of assets that were read for packing.
    packed: Mutex<VecDeque<PackedRange>>,
    counters: PageCounters,
}

/// Use of a segment that was read and is in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentUse {
    /// A playback has it, or will soon.
    Needed,
    /// Several playbacks had it lately.
    Popular,
    /// At most one playback has used it lately.
    Unused {
        /// True if the segment before it is not in use, either.
        is_behind_unused: bool,
    },
}

/// A part of an asset that was read for packing.
struct PackedRange {
    file: Weak<MappedFile>,
    range: Range<u64>,
}

/// An image, which knows the use of its segments.
pub(super) trait SegmentHolder: Send + Sync {
    /// Use of a segment that was read for an edition. If it is unused, or no playback took it and
    /// `is_untaken` is set, the image stops holding it.
    fn segment_use(&self, number: u32, edition: u64, is_untaken: bool) -> SegmentUse;
}

/// A segment that was read.
pub(super) struct HeldSegment {
    pub(super) image: Weak<dyn SegmentHolder>,
    pub(super) number: u32,
    /// Edition of the image for which the segment was read.
    pub(super) edition: u64,
    pub(super) segment: Weak<Segment>,
    pub(super) file: Weak<MappedFile>,
    pub(super) range: Range<u64>,
    pub(super) read_at: Instant,
}

impl PageMemory {
    /// Page memory of this many bytes; none for half of the memory that the process may use.
    pub(super) fn new(budget: Option<u64>) -> Arc<PageMemory> {
        let budget = budget.unwrap_or_else(|| memory_limit() / 2);
        let counters = PageCounters::default();
        counters.budget_bytes.set(budget);
        Arc::new(PageMemory {
            budget,
            held: AtomicU64::new(0),
            segments: Mutex::default(),
            packed: Mutex::default(),
            counters,
        })
    }

    /// Notes a segment that was read, and releases others if the budget is exceeded. May block.
    pub(super) fn note_read(&self, segment: HeldSegment) {
        self.held.fetch_add(segment.length(), Relaxed);
        self.segments.lock().push_back(segment);
        self.make_room();
    }

    /// Notes a part of an asset that was read for packing; such parts are released before all segments if the
    /// budget is exceeded. May block.
    pub(super) fn note_packed(&self, file: &Arc<MappedFile>, range: Range<u64>) {
        self.held.fetch_add(range.end - range.start, Relaxed);
        self.packed.lock().push_back(PackedRange { file: Arc::downgrade(file), range });
        self.make_room();
    }

    /// Time in microseconds before a segment is needed at which it is read.
    pub(super) fn read_ahead_us(&self) -> u64 {
        if self.is_exceeded() { SHORT_READ_AHEAD_US } else { READ_AHEAD_US }
    }

    /// Counters and gauges.
    pub(super) fn counts(&self) -> PageCounts {
        self.counters.held_bytes.set(self.held.load(Relaxed));
        self.counters.snapshot()
    }

    fn is_exceeded(&self) -> bool {
        self.held.load(Relaxed) > self.budget
    }

    fn make_room(&self) {
        while self.is_exceeded() {
            let Some(PackedRange { file, range }) = self.packed.lock().pop_front() else { break };
            let length = range.end - range.start;
            self.held.fetch_sub(length, Relaxed);
            if let Some(file) = file.upgrade() {
                let range = range.start.saturating_sub(LARGEST_FOLIO)..range.end;
                self.note_released(length, file.release_unmapped(range));
            }
        }
        let mut looks = self.segments.lock().len().min(LOOKS);
        while looks > 0 && self.is_exceeded() {
            looks -= 1;
            let Some(segment) = self.segments.lock().pop_front() else { return };
            match segment.of_use() {
                SegmentUse::Needed | SegmentUse::Popular => self.segments.lock().push_back(segment),
                SegmentUse::Unused { is_behind_unused } => self.release(&segment, is_behind_unused),
            }
        }
    }

    /// Releases a segment, and a little before it if nobody needs that part.
    fn release(&self, segment: &HeldSegment, is_behind_unused: bool) {
        self.held.fetch_sub(segment.length(), Relaxed);
        let Some(file) = segment.file.upgrade() else { return };
        let before = if is_behind_unused { LARGEST_FOLIO } else { 0 };
        let range = segment.range.start.saturating_sub(before)..segment.range.end;
        self.note_released(segment.length(), file.release(range));
    }

    fn note_released(&self, length: u64, released: io::Result<()>) {
        match released {
            Ok(()) => self.counters.released_bytes.add(length),
            Err(error) => {
                tracing::debug!(%error, "posix_fadvise failed to release media from the page cache")
            }
        }
    }
}

impl HeldSegment {
    fn length(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn of_use(&self) -> SegmentUse {
        let is_untaken = self.read_at.elapsed() > UNTAKEN;
        let image = self.image.upgrade();
        let gone = SegmentUse::Unused { is_behind_unused: false };
        match image.map_or(gone, |image| image.segment_use(self.number, self.edition, is_untaken)) {
            // Playbacks keep the segments that they have, of files that the image no longer uses.
            SegmentUse::Unused { .. } if self.segment.strong_count() > 0 => SegmentUse::Needed,
            of_use => of_use,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image that no longer uses the files from which its segments were read.
    struct Moved;

    impl SegmentHolder for Moved {
        fn segment_use(&self, _number: u32, _edition: u64, _is_untaken: bool) -> SegmentUse {
            SegmentUse::Unused { is_behind_unused: false }
        }
    }

    /// Promise: A segment in use by a playback stays in the page cache after its image has moved to other
    /// files.
    #[test]
    fn a_segment_that_a_playback_has_stays_when_its_image_has_moved() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 16).unwrap();
        let mapped_file = Arc::new(MappedFile::new(file, 1 << 16).unwrap());
        let image: Arc<dyn SegmentHolder> = Arc::new(Moved);
        let memory = PageMemory::new(Some(1));
        let read = |segment: &Arc<Segment>| {
            memory.note_read(HeldSegment {
                image: Arc::downgrade(&image),
                number: 0,
                edition: 0,
                segment: Arc::downgrade(segment),
                file: Arc::downgrade(&mapped_file),
                range: 0..4096,
                read_at: Instant::now(),
            });
        };
        let segment = || {
            Arc::new(Segment {
                mapped_file: Arc::clone(&mapped_file),
                departures: Box::default(),
                original: None,
                clock: None,
            })
        };
        let (played, other) = (segment(), segment());
        read(&played);
        assert_eq!(memory.counts().held_bytes, 4096, "a playback has it");
        drop(played);
        read(&other);
        let counts = memory.counts();
        assert_eq!((counts.held_bytes, counts.released_bytes), (4096, 4096));
    }
}
