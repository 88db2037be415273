//! A wire image that is open: a source of trains, complete or still being packed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use wirepath_datapath::MappedFile;
use wirepath_engine::{BlockingPool, Waker};
use wirepath_media::image::{Plan, SegmentEntry, Start};
use wirepath_playback::{At, Cursor, Load, Segment, TrainSource};

use super::segment;
use super::summary::Summary;
use super::waiters::Waiters;

/// How long it is remembered that a segment could not be read, so that all who wait for it hear why.
const READ_FAILURE: Duration = Duration::from_secs(1);

/// A wire image that is open. Its segments are brought in, checked and shared as playbacks ask for them.
pub struct Image {
    this: Weak<Image>,
    name: String,
    path: PathBuf,
    plan: Plan,
    readers: BlockingPool,
    on_damage: Box<dyn Fn(Arc<Image>, Damage) + Send + Sync>,
    state: Mutex<State>,
    packing: Mutex<PackingOf>,
    progress: watch::Sender<Progress>,
    asset_bytes_packed: AtomicU64,
}

/// What was found damaged.
pub(super) struct Damage {
    /// The file.
    pub(super) medium: Arc<MappedFile>,
    /// The generation that the image has now, after it started over.
    pub(super) generation: u32,
    /// What is wrong.
    pub(super) error: String,
}

/// What is in an image by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// RTP packets.
    pub packets: u64,
    /// Trains that they make up.
    pub trains: u64,
    /// Bytes that the image takes on the disk: exact once it is complete, before that what is reserved for it.
    pub stored_bytes: u64,
}

/// How far an image has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All that departs before this time, in microseconds from the start, can be played; more will come.
    Growing {
        /// The time in microseconds.
        until_us: u64,
    },
    /// All of it can be played.
    Complete,
    /// It will not be complete. Playbacks keep the segments that they have, and get no more.
    Failed(Failure),
}

/// Why an image will not be complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For the log and the operator: may name folders of this machine.
    pub reason: Arc<str>,
    /// For whoever asks: names none.
    pub public: Arc<str>,
}

/// Where a playback begins that is to play from a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekResult {
    /// At this place.
    At {
        /// The place.
        cursor: Cursor,
        /// Time of the place in microseconds from the start.
        start_us: u64,
    },
    /// Not known yet: the image has not grown so far; see [`Image::progress`].
    NotYet,
    /// Nowhere: the image ends before.
    BeyondEnd,
}

/// Which generation is being packed.
#[derive(Default)]
struct PackingOf {
    wanted: u32,
    busy: bool,
}

struct State {
    /// How often the image started over because it was damaged. Whoever reads or packs it says for which generation, so that
    /// what belongs to an older one changes nothing.
    generation: u32,
    medium: Option<Arc<MappedFile>>,
    slots: Vec<Slot>,
    starts: Vec<Start>,
    summary: Summary,
    waiters: Waiters,
}

struct Slot {
    entry: SegmentEntry,
    /// Its checksum was right at least once while the image was open.
    verified: bool,
    /// A reader is bringing it in.
    loading: bool,
    loaded: Loaded,
}

/// A segment that was brought in. Nobody may have asked for it again yet: until then it is kept here.
enum Loaded {
    No,
    Fresh(Arc<Segment>),
    Shared(Weak<Segment>),
    Failed { at: Instant, reason: Arc<str> },
}

impl Image {
    /// An image of which there is nothing yet. `on_damage` is called on a reader thread when a segment turns out damaged, after
    /// which the image is empty and grows again.
    pub(super) fn new(
        name: &str,
        path: PathBuf,
        plan: Plan,
        summary: Summary,
        readers: BlockingPool,
        on_damage: impl Fn(Arc<Image>, Damage) + Send + Sync + 'static,
    ) -> Arc<Image> {
        let state = State {
            generation: 0,
            medium: None,
            slots: Vec::new(),
            starts: Vec::new(),
            summary,
            waiters: Waiters::default(),
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
        })
    }

    /// What people call its asset.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its file is, once it is complete.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How it was made.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What is known about its asset.
    pub fn summary(&self) -> Summary {
        self.state.lock().summary.clone()
    }

    /// How far it has come, to be watched.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// How many bytes of the asset have been packed since packing last began; 0 for an image from the cache.
    pub fn asset_bytes_packed(&self) -> u64 {
        self.asset_bytes_packed.load(Relaxed)
    }

    /// What is in it by now.
    ///
    /// # Errors
    /// What asking for the length of its file says.
    pub fn contents(&self) -> io::Result<Contents> {
        let state = self.state.lock();
        let entries = || state.slots.iter().map(|slot| &slot.entry);
        Ok(Contents {
            packets: entries().map(|entry| entry.packets(&self.plan)).sum(),
            trains: entries().map(|entry| u64::from(entry.records)).sum(),
            stored_bytes: match &state.medium {
                Some(medium) => medium.file().metadata()?.len(),
                None => 0,
            },
        })
    }

    /// Notes how much of the asset has been packed.
    pub(super) fn note_packed(&self, asset_bytes: u64) {
        self.asset_bytes_packed.store(asset_bytes, Relaxed);
    }

    /// Whether it will never be complete.
    pub(super) fn has_failed(&self) -> bool {
        matches!(*self.progress.borrow(), Progress::Failed(_))
    }

    /// The file and where its segments end, once all of them are there.
    pub(super) fn whole(&self) -> Option<(Arc<MappedFile>, u64)> {
        let state = self.state.lock();
        let complete = *self.progress.borrow() == Progress::Complete;
        let medium = state.medium.as_ref().filter(|_| complete)?;
        let last = &state.slots.last()?.entry;
        Some((Arc::clone(medium), last.offset + last.length()))
    }

    /// The segments that are in it by now.
    pub(super) fn segments(&self) -> Vec<SegmentEntry> {
        self.state.lock().slots.iter().map(|slot| slot.entry).collect()
    }

    /// Where to begin for a time in microseconds from the start: at the last random access point at or before it, or exactly
    /// there where there are none. The start of the image is always a place to begin.
    pub fn locate(&self, at_us: u64) -> SeekResult {
        if at_us == 0 {
            return SeekResult::At { cursor: Cursor::START, start_us: 0 };
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
            return SeekResult::At {
                cursor: Cursor { segment: start.segment, at },
                start_us: start.departure_us,
            };
        }
        if !state.starts.is_empty() {
            return SeekResult::At { cursor: Cursor::START, start_us: 0 };
        }
        let after = state.slots.partition_point(|slot| slot.entry.first_departure_us <= at_us);
        let segment = after.saturating_sub(1) as u32;
        SeekResult::At { cursor: Cursor { segment, at: At::Time(at_us) }, start_us: at_us }
    }

    /// A generation is to be packed. Answers whether whoever asks has to see to it: one packs the image at a time, and whoever
    /// does goes on with this generation after its own.
    pub(super) fn want_packed(&self, generation: u32) -> bool {
        let mut packing = self.packing.lock();
        packing.wanted = generation;
        !std::mem::replace(&mut packing.busy, true)
    }

    /// The packing of a generation is over. Answers the generation to go on with, if another is wanted by now.
    pub(super) fn packing_over(&self, generation: u32) -> Option<u32> {
        let mut packing = self.packing.lock();
        packing.busy = packing.wanted != generation;
        packing.busy.then_some(packing.wanted)
    }

    /// Its generation: 0, and one more each time that it turned out damaged.
    pub(super) fn generation(&self) -> u32 {
        self.state.lock().generation
    }

    /// Has the image be kept in a file, in which there is nothing yet; answers whether it still is of this generation, as do
    /// [`Image::grow`] and [`Image::end`], which otherwise change nothing.
    pub(super) fn begin(&self, generation: u32, medium: MappedFile) -> bool {
        let mut state = self.state.lock();
        let current = state.generation == generation;
        if current {
            state.medium = Some(Arc::new(medium));
        }
        current
    }

    /// Adds segments that are in the file now. Those whose checksum was computed from what was written count as verified.
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
        let slot =
            |entry: &SegmentEntry| Slot { entry: *entry, verified, loading: false, loaded: Loaded::No };
        let first = state.slots.len() as u32;
        state.slots.extend(entries.iter().map(slot));
        state.starts.extend_from_slice(starts);
        let until_us = state.slots.last().map_or(0, |slot| slot.entry.first_departure_us);
        self.progress.send_replace(Progress::Growing { until_us });
        let end = state.slots.len() as u32;
        let wakers = state.waiters.take(first..end);
        drop(state);
        wakers.iter().for_each(Waker::wake);
        true
    }

    /// No more segments will come: all are there, or the words say why not. Then the file is let go of: nobody is kept from
    /// the room that it takes by an image that nobody can play.
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
        let wakers = state.waiters.take(waiting..);
        drop(state); // engine threads must not wait until a file is closed
        drop(gone);
        wakers.iter().for_each(Waker::wake);
        true
    }

    /// Brings a segment in; runs on a reader thread.
    fn load(&self, number: u32) {
        let index = number as usize;
        let Some(job) = self.to_load(index) else { return };
        let result = segment::read(&job.medium, &self.plan, &job.entry, job.until_us, job.verified);
        let mut state = self.state.lock();
        // The image may have started over meanwhile; then this segment is of no use.
        if state.generation != job.generation {
            return;
        }
        let Some(slot) = state.slots.get_mut(index) else { return };
        slot.loading = false;
        let failure = match result {
            Ok(segment) => {
                slot.verified = true;
                slot.loaded = Loaded::Fresh(Arc::new(segment));
                None
            }
            Err(error) if error.is_damage() => {
                let gone = self.start_over(&mut state);
                let generation = state.generation;
                drop(state);
                drop(gone);
                let error = format!("segment {number}: {error}");
                if let Some(this) = self.this.upgrade() {
                    (self.on_damage)(this, Damage { medium: job.medium, generation, error });
                }
                return; // playbacks that wait for the segment are woken when it is there again
            }
            Err(error) => {
                let reason = format!("segment {number} of the wire image {}: {error}", self.path.display());
                slot.loaded = Loaded::Failed { at: Instant::now(), reason: reason.into() };
                Some(error)
            }
        };
        let wakers = state.waiters.take(number..=number);
        drop(state);
        wakers.iter().for_each(Waker::wake);
        if let Some(error) = failure {
            tracing::warn!(asset = self.name, image = %self.path.display(), segment = number, %error,
                "a segment of a wire image cannot be read; what plays it ends");
        }
    }

    /// Empties the image for the next generation. As long as `state` is locked nobody asks for a segment: one that is gone
    /// from an image that still called itself complete would be taken for its end.
    fn start_over(&self, state: &mut State) -> (Option<Arc<MappedFile>>, Vec<Slot>) {
        state.generation += 1;
        self.progress.send_replace(Progress::Growing { until_us: 0 });
        state.empty()
    }

    fn to_load(&self, index: usize) -> Option<LoadJob> {
        let state = self.state.lock();
        let slot = state.slots.get(index)?;
        Some(LoadJob {
            generation: state.generation,
            medium: Arc::clone(state.medium.as_ref()?),
            entry: slot.entry,
            until_us: state.slots.get(index + 1).map_or(u64::MAX, |next| next.entry.first_departure_us),
            verified: slot.verified,
        })
    }
}

/// A segment to be brought in, as it was when that was decided.
struct LoadJob {
    generation: u32,
    medium: Arc<MappedFile>,
    entry: SegmentEntry,
    until_us: u64,
    verified: bool,
}

impl State {
    /// Takes out what holds the file, to be dropped where that may wait.
    fn empty(&mut self) -> (Option<Arc<MappedFile>>, Vec<Slot>) {
        self.starts.clear();
        (self.medium.take(), std::mem::take(&mut self.slots))
    }
}

impl Drop for Image {
    /// The last to hold an image may be a thread that must not wait until its file is closed.
    fn drop(&mut self) {
        let gone = self.state.lock().empty();
        self.readers.discard(gone);
    }
}

impl TrainSource for Image {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        let mut state = self.state.lock();
        let State { slots, waiters, .. } = &mut *state;
        let mut wait = || {
            waker.into_iter().for_each(|waker| waiters.insert(waker, number));
            Load::Pending
        };
        let Some(slot) = slots.get_mut(number as usize) else {
            return match &*self.progress.borrow() {
                Progress::Growing { .. } => wait(),
                Progress::Complete => Load::End,
                Progress::Failed(failure) => Load::Failed(Arc::clone(&failure.reason)),
            };
        };
        if let Some(segment) = slot.take() {
            return Load::Ready(segment);
        }
        if let Some(reason) = slot.failed() {
            return Load::Failed(reason);
        }
        if !slot.loading
            && let Some(this) = self.this.upgrade()
        {
            slot.loading = self.readers.submit(move || this.load(number));
        }
        if slot.loading { wait() } else { Load::Busy }
    }

    fn forget(&self, waker: &Waker) {
        self.state.lock().waiters.remove(waker);
    }
}

impl Slot {
    /// The segment, if it is there, for somebody who keeps it from now on.
    fn take(&mut self) -> Option<Arc<Segment>> {
        let segment = match std::mem::replace(&mut self.loaded, Loaded::No) {
            Loaded::No => None,
            Loaded::Fresh(segment) => Some(segment),
            Loaded::Shared(segment) => segment.upgrade(),
            failed @ Loaded::Failed { .. } => {
                self.loaded = failed;
                None
            }
        }?;
        self.loaded = Loaded::Shared(Arc::downgrade(&segment));
        Some(segment)
    }

    /// Why it could not be read, if that was a moment ago. After that it may be tried again.
    fn failed(&self) -> Option<Arc<str>> {
        match &self.loaded {
            Loaded::Failed { at, reason } if at.elapsed() < READ_FAILURE => Some(Arc::clone(reason)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
