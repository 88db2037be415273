//! A wire image that is open: a source of trains, complete or still being packed.

use std::collections::HashMap;
use std::io;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use wirepath_datapath::MappedFile;
use wirepath_engine::Waker;
use wirepath_media::image::{Layout, Plan, SegmentEntry, Start};
use wirepath_playback::{At, Cursor, Load, Segment, TrainSource};

use super::page_memory::{HeldSegment, Readers, SegmentHolder, SegmentUse};
use super::progress::{Contents, Failure, Progress, SeekResult};
use super::read::ReadImageError;
use super::segment::{self, Files};
use super::slot::{Loaded, Slot};
use super::summary::Summary;

/// Time before a playback needs more of an asset, at which that is packed with urgency.
const LEAD: Duration = Duration::from_millis(50);

/// Distance of a playback that follows another, within which it finds in memory what that was sent.
const FOLLOWING_US: u64 = 4_000_000;

/// An open wire image or index. Its segments are read, checked and shared as playbacks request them.
pub struct Image {
    this: Weak<Image>,
    name: String,
    path: PathBuf,
    plan: Plan,
    readers: Readers,
    on_damage: Box<dyn Fn(Arc<Image>, Damage) + Send + Sync>,
    state: Mutex<State>,
    packing: Mutex<PackingState>,
    progress: watch::Sender<Progress>,
    asset_bytes_packed: AtomicU64,
    /// Bytes of packets that playbacks were given to be sent from the asset.
    asset_bytes_played: Arc<AtomicU64>,
}

/// Damage that was found in a file.
pub(super) struct Damage {
    /// The file.
    pub(super) mapped_file: Arc<MappedFile>,
    /// Generation of the image after it started over.
    pub(super) generation: u32,
    /// Layout of the file.
    pub(super) layout: Layout,
    /// True if the index has what is damaged, so that playbacks go on from the asset.
    pub(super) is_replaced: bool,
    /// The damage.
    pub(super) error: String,
}

/// The generation that is being packed.
#[derive(Default)]
struct PackingState {
    wanted: u32,
    busy: bool,
}

struct State {
    /// Number of times that the image started over because it was damaged. Reading and packing name the
    /// generation that they are for, so that results for an older one change nothing.
    generation: u32,
    /// Number of times that other files took the place of those before. Segments name the one that they were
    /// read for.
    edition: u64,
    files: Option<Files>,
    slots: Vec<Slot>,
    /// The index, while packets are sent from an image that was made by it.
    index: Option<(Files, Vec<SegmentEntry>)>,
    /// Time at which a playback could begin.
    begun: Option<Instant>,
    starts: Vec<Start>,
    summary: Summary,
    /// Wakers of playbacks, each with the number of the segment that it waits for: one at a time.
    waiters: HashMap<Waker, u32>,
}

impl Image {
    /// An empty image, which counts in `played` what playbacks are given of the asset. `on_damage` is called
    /// on a thread of the pool when a segment turns out damaged; the image is empty then, and grows again.
    pub(super) fn new(
        name: &str,
        path: PathBuf,
        plan: Plan,
        summary: Summary,
        readers: Readers,
        played: Arc<AtomicU64>,
        on_damage: impl Fn(Arc<Image>, Damage) + Send + Sync + 'static,
    ) -> Arc<Image> {
        let state = State {
            generation: 0,
            edition: 0,
            files: None,
            slots: Vec::new(),
            index: None,
            begun: None,
            starts: Vec::new(),
            summary,
            waiters: HashMap::new(),
        };
        Arc::new_cyclic(|this| Image {
            this: this.clone(),
            name: name.to_owned(),
            path,
            plan,
            readers,
            on_damage: Box::new(on_damage),
            state: Mutex::new(state),
            packing: Mutex::default(),
            progress: watch::Sender::new(Progress::Growing { until_us: 0 }),
            asset_bytes_packed: AtomicU64::new(0),
            asset_bytes_played: played,
        })
    }

    /// Name of the asset for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of the file, once it is complete.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Plan by which the image was packed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Description of the asset.
    pub fn summary(&self) -> Summary {
        self.state.lock().summary.clone()
    }

    /// Progress of packing, to be watched.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Bytes of the asset that were packed since packing last began; 0 for an image from the cache.
    pub fn asset_bytes_packed(&self) -> u64 {
        self.asset_bytes_packed.load(Relaxed)
    }

    /// Contents by now.
    pub fn contents(&self) -> io::Result<Contents> {
        let state = self.state.lock();
        let entries = || state.slots.iter().map(|slot| &slot.entry);
        Ok(Contents {
            packets: entries().map(|entry| entry.packets(&self.plan)).sum(),
            trains: entries().map(|entry| u64::from(entry.records)).sum(),
            stored_bytes: match &state.files {
                Some(files) => files.stored.file().metadata()?.len(),
                None => 0,
            },
        })
    }

    /// Notes how much of the asset has been packed.
    pub(super) fn note_packed(&self, asset_bytes: u64) {
        let before = self.asset_bytes_packed.swap(asset_bytes, Relaxed);
        let asset = self.state.lock().files.as_ref().and_then(|files| files.asset.clone());
        if let Some(asset) = asset.filter(|_| before < asset_bytes) {
            self.readers.memory.note_packed(&asset, before..asset_bytes);
        }
    }

    /// Returns whether the image will never be complete.
    pub(super) fn has_failed(&self) -> bool {
        matches!(*self.progress.borrow(), Progress::Failed(_))
    }

    /// The file of the image and where its segments end, once all of them are there. None for an index.
    pub(super) fn whole(&self) -> Option<(Arc<MappedFile>, u64)> {
        let state = self.state.lock();
        let complete = *self.progress.borrow() == Progress::Complete;
        let files = state.files.as_ref().filter(|files| complete && files.asset.is_none())?;
        let last = &state.slots.last()?.entry;
        Some((Arc::clone(&files.stored), last.offset + last.length()))
    }

    /// Returns whether payload is sent from the asset, not from an image.
    pub fn is_sent_from_asset(&self) -> bool {
        self.state.lock().files.as_ref().is_some_and(|files| files.asset.is_some())
    }

    /// Bytes of packets that playbacks were given to be sent from the asset, since it was first played.
    pub(super) fn asset_bytes_played(&self) -> u64 {
        self.asset_bytes_played.load(Relaxed)
    }

    /// Returns whether payload is sent from the asset by a complete index.
    pub(super) fn has_whole_index(&self) -> bool {
        self.is_sent_from_asset() && *self.progress.borrow() == Progress::Complete
    }

    /// The complete index, to make an image by.
    pub(super) fn whole_index(&self) -> Option<WholeIndex> {
        let state = self.state.lock();
        let complete = *self.progress.borrow() == Progress::Complete;
        let files = state.files.as_ref().filter(|files| complete && files.asset.is_some())?;
        Some(WholeIndex {
            generation: state.generation,
            files: files.clone(),
            segments: state.slots.iter().map(|slot| slot.entry).collect(),
            starts: state.starts.clone(),
            summary: state.summary.clone(),
        })
    }

    /// Time at which more of the asset has to be packed, lest a playback wait: in the past if one waits.
    pub(super) fn needed_at(&self, last_turn: Instant) -> Instant {
        let state = self.state.lock();
        let end = state.slots.len() as u32;
        let Some(begun) = state.begun.filter(|_| !state.waiters.values().any(|segment| *segment >= end))
        else {
            return last_turn;
        };
        let until_us = state.slots.last().map_or(0, |slot| slot.entry.first_departure_us);
        begun + Duration::from_micros(until_us).saturating_sub(LEAD)
    }

    /// The segments by now.
    pub(super) fn segments(&self) -> Vec<SegmentEntry> {
        self.state.lock().slots.iter().map(|slot| slot.entry).collect()
    }

    /// Finds the place to begin for a time in microseconds from the start: the last random access point at or
    /// before it, or that very time where there are none. The start of the image is always a place to begin.
    pub(crate) fn locate(&self, at_us: u64) -> SeekResult {
        if at_us == 0 {
            return SeekResult::At(Cursor::START);
        }
        let state = self.state.lock();
        match *self.progress.borrow() {
            Progress::Growing { until_us } if at_us >= until_us => return SeekResult::NotYet,
            Progress::Growing { .. } | Progress::Failed(_) if state.slots.is_empty() => {
                return SeekResult::NotYet;
            }
            Progress::Complete if state.summary.duration_us.is_some_and(|end_us| at_us >= end_us) => {
                return SeekResult::BeyondEnd;
            }
            _ => {}
        }
        let before = state.starts.partition_point(|start| start.departure_us <= at_us);
        if let Some(start) = before.checked_sub(1).and_then(|index| state.starts.get(index)) {
            let at = At::Packet { train: start.train, packet: 0, skip: start.skip as u16 };
            return SeekResult::At(Cursor { segment: start.segment, at });
        }
        if !state.starts.is_empty() {
            return SeekResult::At(Cursor::START);
        }
        let after = state.slots.partition_point(|slot| slot.entry.first_departure_us <= at_us);
        let segment = after.saturating_sub(1) as u32;
        SeekResult::At(Cursor { segment, at: At::Time(at_us) })
    }

    /// Requests that a generation be packed. Returns whether the caller has to do it: one packs the image at
    /// a time, and goes on with this generation after its own.
    pub(super) fn want_packed(&self, generation: u32) -> bool {
        let mut packing = self.packing.lock();
        packing.wanted = generation;
        !std::mem::replace(&mut packing.busy, true)
    }

    /// Ends the packing of a generation. Returns the generation to go on with, if another is wanted by now.
    pub(super) fn packing_over(&self, generation: u32) -> Option<u32> {
        let mut packing = self.packing.lock();
        packing.busy = packing.wanted != generation;
        packing.busy.then_some(packing.wanted)
    }

    /// The generation: 0, and one more each time that the image turned out damaged.
    pub(super) fn generation(&self) -> u32 {
        self.state.lock().generation
    }

    /// Keeps the image in empty files from now on. Returns whether the image still is of this generation,
    /// as do [`Image::grow`] and [`Image::end`], which otherwise change nothing.
    pub(super) fn begin(&self, generation: u32, files: Files) -> bool {
        let mut state = self.state.lock();
        let current = state.generation == generation;
        if current {
            state.files = Some(files);
        }
        current
    }

    /// Has packets sent from an image that was made by the index, each playback from its next segment on.
    /// Returns whether the index still is of this generation.
    pub(super) fn adopt(&self, generation: u32, image: Arc<MappedFile>, entries: &[SegmentEntry]) -> bool {
        let mut state = self.state.lock();
        if state.generation != generation || state.slots.len() != entries.len() {
            return false;
        }
        let files = Files { stored: image, asset: None };
        let before = state.replace(files, entries, true);
        state.index = before;
        let wakers = state.take_wakers(..);
        drop(state);
        wakers.iter().for_each(Waker::wake);
        true
    }

    /// Keeps an index by the same plan, for playbacks to go on from if the image turns out damaged. An index
    /// with other segments is ignored.
    pub(super) fn set_index(&self, files: Files, entries: &[SegmentEntry]) {
        let mut state = self.state.lock();
        let place = |entry: &SegmentEntry| (entry.first_packet, entry.first_departure_us, entry.records);
        if state.slots.iter().map(|slot| place(&slot.entry)).eq(entries.iter().map(place)) {
            state.index = Some((files, entries.to_vec()));
        }
    }

    /// Adds segments that are in the file now. If their checksums were computed from the bytes that were
    /// written, they count as verified.
    pub(super) fn grow(
        &self,
        generation: u32,
        entries: &[SegmentEntry],
        starts: &[Start],
        verified: bool,
    ) -> bool {
        let mut state = self.state.lock();
        if state.generation != generation {
            return false;
        }
        let first = state.slots.len() as u32;
        state.slots.extend(entries.iter().map(|entry| Slot::new(*entry, verified)));
        state.begun.get_or_insert_with(Instant::now);
        state.starts.extend_from_slice(starts);
        let until_us = state.slots.last().map_or(0, |slot| slot.entry.first_departure_us);
        self.progress.send_replace(Progress::Growing { until_us });
        let end = state.slots.len() as u32;
        let wakers = state.take_wakers(first..end);
        drop(state);
        wakers.iter().for_each(Waker::wake);
        true
    }

    /// Ends the growth: all segments are there, or packing failed. The file of a failed image is closed,
    /// which frees its space.
    pub(super) fn end(&self, generation: u32, result: Result<Summary, Failure>) -> bool {
        let mut state = self.state.lock();
        if state.generation != generation {
            return false;
        }
        let (waiting, gone) = match result {
            Ok(summary) => {
                state.summary = summary;
                self.progress.send_replace(Progress::Complete);
                (state.slots.len() as u32, None)
            }
            Err(failure) => {
                self.progress.send_replace(Progress::Failed(failure));
                (0, Some(state.empty()))
            }
        };
        let wakers = state.take_wakers(waiting..);
        drop(state); // engine threads must not wait until a file is closed
        drop(gone);
        wakers.iter().for_each(Waker::wake);
        true
    }

    /// Reads a segment, on a thread of the pool.
    fn load(&self, number: u32) {
        let index = number as usize;
        let Some(job) = self.to_load(index) else { return };
        let result = segment::read(&job.files, &self.plan, &job.entry, job.until_us, job.verified);
        let mut state = self.state.lock();
        // The image may have started over or moved meanwhile; then this segment is not needed.
        if state.edition != job.edition {
            return;
        }
        let Some(slot) = state.slots.get_mut(index) else { return };
        slot.loading = false;
        let mut held = None;
        let failure = match result {
            Ok(segment) => {
                slot.verified = true;
                let segment = Arc::new(segment);
                if !std::mem::replace(&mut slot.held, true) {
                    held = Some(self.held_segment(number, &job, &segment));
                }
                slot.loaded = Loaded::Fresh(segment);
                None
            }
            Err(error) if error.is_damage() => {
                self.leave_damaged(state, job.files, format!("segment {number}: {error}"));
                return;
            }
            Err(error) => {
                let reason = match error {
                    ReadImageError::AssetChanged | ReadImageError::Asset(_) => error.to_string(),
                    _ => format!("segment {number} of the wire image {}: {error}", self.path.display()),
                };
                slot.loaded = Loaded::Failed { at: Instant::now(), reason: reason.into() };
                Some(error)
            }
        };
        let wakers = state.take_wakers(number..=number);
        drop(state);
        wakers.iter().for_each(Waker::wake);
        if let Some(held) = held {
            self.readers.memory.note_read(held);
        }
        if let Some(error) = failure {
            tracing::warn!(asset = self.name, image = %self.path.display(), segment = number, %error,
                "a segment of a wire image cannot be read; what plays it ends");
        }
    }

    /// A segment as page memory knows it.
    fn held_segment(&self, number: u32, job: &LoadJob, segment: &Arc<Segment>) -> HeldSegment {
        let entry = &job.entry;
        let range = match entry.asset_offset {
            Some(offset) => offset..offset + entry.payload_length(&self.plan),
            None => entry.offset..entry.offset + entry.length(),
        };
        HeldSegment {
            image: self.this.clone() as Weak<dyn SegmentHolder>,
            number,
            edition: job.edition,
            segment: Arc::downgrade(segment),
            file: Arc::downgrade(&segment.mapped_file),
            range,
            read_at: Instant::now(),
        }
    }

    /// Has further segments read that are needed soon after one that is requested in advance.
    fn load_further(&self, state: &mut State, number: u32) {
        let start_us =
            |slots: &[Slot], index: usize| slots.get(index).map(|slot| slot.entry.first_departure_us);
        let mut index = number as usize + 1;
        let (Some(from_us), Some(next_us)) =
            (start_us(&state.slots, index - 1), start_us(&state.slots, index))
        else {
            return;
        };
        let until_us = (from_us + self.readers.memory.read_ahead_us()).saturating_sub(next_us - from_us);
        while let Some(slot) =
            state.slots.get_mut(index).filter(|slot| slot.entry.first_departure_us < until_us)
        {
            if !self.has_loaded(slot, index as u32) {
                return;
            }
            index += 1;
        }
    }

    /// Has a segment read unless it is there, or is being read. Returns false if readers have no room.
    fn has_loaded(&self, slot: &mut Slot, number: u32) -> bool {
        if slot.loading || slot.is_there() {
            return true;
        }
        if let Some(this) = self.this.upgrade() {
            slot.loading = self.readers.pool.submit(move || this.load(number));
        }
        slot.loading
    }

    /// Goes on without a damaged file: from the index if there is one; else the image is empty and is packed
    /// again, and playbacks that wait for a segment are woken when it is there again.
    fn leave_damaged(&self, mut state: MutexGuard<'_, State>, damaged: Files, error: String) {
        let index = state.index.take();
        let is_replaced = index.is_some();
        let (gone, wakers) = match index {
            Some((files, entries)) => {
                let before = state.replace(files, &entries, false);
                (before.map(|(files, _)| (Some(files), Vec::new())), state.take_wakers(..))
            }
            None => (Some(self.start_over(&mut state)), Vec::new()),
        };
        let generation = state.generation;
        drop(state);
        drop(gone);
        wakers.iter().for_each(Waker::wake);
        if let Some(this) = self.this.upgrade() {
            let layout = if damaged.asset.is_some() { Layout::Index } else { Layout::Image };
            let mapped_file = damaged.stored;
            (self.on_damage)(this, Damage { mapped_file, layout, generation, is_replaced, error });
        }
    }

    /// Empties the image for the next generation. While `state` is locked nobody requests a segment: one that
    /// is missing in an image that still called itself complete would be taken for its end.
    fn start_over(&self, state: &mut State) -> (Option<Files>, Vec<Slot>) {
        state.generation += 1;
        state.edition += 1;
        state.begun = None;
        self.progress.send_replace(Progress::Growing { until_us: 0 });
        state.empty()
    }

    fn to_load(&self, index: usize) -> Option<LoadJob> {
        let state = self.state.lock();
        let slot = state.slots.get(index)?;
        Some(LoadJob {
            edition: state.edition,
            files: state.files.clone()?,
            entry: slot.entry,
            until_us: state.slots.get(index + 1).map_or(u64::MAX, |next| next.entry.first_departure_us),
            verified: slot.verified,
        })
    }
}

/// A complete index, and what an image needs of it.
pub(super) struct WholeIndex {
    pub(super) generation: u32,
    pub(super) files: Files,
    pub(super) segments: Vec<SegmentEntry>,
    pub(super) starts: Vec<Start>,
    pub(super) summary: Summary,
}

/// A segment to be read, as it was when that was decided.
struct LoadJob {
    edition: u64,
    files: Files,
    entry: SegmentEntry,
    until_us: u64,
    verified: bool,
}

impl State {
    /// Takes out the wakers of these segments, to be woken when no lock is held.
    #[must_use]
    fn take_wakers(&mut self, segments: impl RangeBounds<u32>) -> Vec<Waker> {
        self.waiters.extract_if(|_, segment| segments.contains(segment)).map(|(waker, _)| waker).collect()
    }

    /// Takes out all references to the files, to be dropped where that may block.
    fn empty(&mut self) -> (Option<Files>, Vec<Slot>) {
        self.starts.clear();
        (self.files.take(), std::mem::take(&mut self.slots))
    }

    /// Puts the same segments of other files in the place of those there are; answers what was there before.
    /// Playbacks keep the segments that they have, and wakers are to be woken.
    fn replace(
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

impl Drop for Image {
    /// The last reference to an image may be dropped by a thread that must not wait until the file is closed.
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let gone = (state.empty(), state.index.take());
        self.readers.pool.discard(gone);
    }
}

impl SegmentHolder for Image {
    fn segment_use(&self, number: u32, edition: u64, is_untaken: bool) -> SegmentUse {
        let mut state = self.state.lock();
        let index = number as usize;
        if state.edition != edition || index >= state.slots.len() {
            return SegmentUse::Unused { is_behind_unused: false };
        }
        let (behind, rest) = state.slots.split_at_mut(index);
        let slot = &mut rest[0];
        if is_untaken {
            slot.forget_untaken();
        }
        let from_us = slot.entry.first_departure_us.saturating_sub(FOLLOWING_US);
        let mut following = behind.iter().rev().take_while(|slot| slot.entry.first_departure_us >= from_us);
        if slot.is_needed() || following.any(Slot::is_shared) {
            return SegmentUse::Needed;
        }
        if slot.is_popular() {
            return SegmentUse::Popular;
        }
        slot.held = false;
        SegmentUse::Unused { is_behind_unused: !behind.last().is_some_and(Slot::is_needed) }
    }
}

impl TrainSource for Image {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        let mut state = self.state.lock();
        let State { slots, waiters, .. } = &mut *state;
        let mut wait = || {
            waiters.extend(waker.map(|waker| (waker.clone(), number)));
            Load::Pending
        };
        let Some(slot) = slots.get_mut(number as usize) else {
            return match &*self.progress.borrow() {
                Progress::Growing { .. } => wait(),
                Progress::Complete => Load::End,
                Progress::Failed(failure) => Load::Failed(Arc::clone(&failure.reason)),
            };
        };
        let load = if let Some(segment) = slot.take() {
            if slot.entry.asset_offset.is_some() {
                self.asset_bytes_played.fetch_add(slot.entry.data_length.into(), Relaxed);
            }
            Load::Ready(segment)
        } else if let Some(reason) = slot.failed() {
            Load::Failed(reason)
        } else if self.has_loaded(slot, number) {
            wait()
        } else {
            Load::Busy
        };
        if waker.is_none() {
            self.load_further(&mut state, number);
        }
        load
    }

    fn read_ahead_us(&self) -> u64 {
        self.readers.memory.read_ahead_us()
    }

    /// Where there are no random access points, any packet is a place to begin.
    fn next_start(&self, at_us: u64) -> Option<Cursor> {
        let state = self.state.lock();
        let before = state.starts.partition_point(|start| start.departure_us < at_us);
        match state.starts.get(before) {
            Some(start) => {
                let at = At::Packet { train: start.train, packet: 0, skip: start.skip as u16 };
                Some(Cursor { segment: start.segment, at })
            }
            None if state.starts.is_empty() => {
                let after = state.slots.partition_point(|slot| slot.entry.first_departure_us <= at_us);
                Some(Cursor { segment: after.checked_sub(1)? as u32, at: At::Time(at_us) })
            }
            None => None,
        }
    }

    fn forget(&self, waker: &Waker) {
        self.state.lock().waiters.remove(waker);
    }
}

#[cfg(test)]
mod tests;
