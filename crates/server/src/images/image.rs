//! A wire image that is open: a source of trains, complete or still being packed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use wirepath_media::image::{self, Plan, SegmentEntry, Start, TRAIN_RECORD_LENGTH};
use wirepath_streams::datapath::{Medium, PageCache, Train};
use wirepath_streams::{At, BlockingPool, Cursor, Departure, Load, Segment, TrainSource};

use super::read::is_lost;
use super::summary::Summary;

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
    pub(super) medium: Arc<Medium>,
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

/// Where a playback that was asked for a time begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// Here.
    At {
        /// The place.
        cursor: Cursor,
        /// Its time in microseconds from the start.
        start_us: u64,
    },
    /// The image has not grown so far; see [`Image::progress`].
    NotYet,
    /// The image ends before.
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
    medium: Option<Arc<Medium>>,
    slots: Vec<Slot>,
    starts: Vec<Start>,
    summary: Summary,
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
        let state = State { generation: 0, medium: None, slots: Vec::new(), starts: Vec::new(), summary };
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
        self.state().summary.clone()
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
        let state = self.state();
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
    pub(super) fn whole(&self) -> Option<(Arc<Medium>, u64)> {
        let state = self.state();
        let complete = *self.progress.borrow() == Progress::Complete;
        let medium = state.medium.as_ref().filter(|_| complete)?;
        let last = &state.slots.last()?.entry;
        Some((Arc::clone(medium), last.offset + last.length()))
    }

    /// The segments that are in it by now.
    pub(super) fn segments(&self) -> Vec<SegmentEntry> {
        self.state().slots.iter().map(|slot| slot.entry).collect()
    }

    /// Where to begin for a time in microseconds from the start: at the last random access point at or before it, or exactly
    /// there where there are none. The start of the image is always a place to begin.
    pub fn locate(&self, at_us: u64) -> Located {
        if at_us == 0 {
            return Located::At { cursor: Cursor::START, start_us: 0 };
        }
        let state = self.state();
        match *self.progress.borrow() {
            Progress::Growing { until_us } if at_us >= until_us => return Located::NotYet,
            Progress::Growing { .. } | Progress::Failed(_) if state.slots.is_empty() => {
                return Located::NotYet;
            }
            Progress::Complete if state.summary.duration_us.is_some_and(|end_us| at_us >= end_us) => {
                return Located::BeyondEnd;
            }
            _ => {}
        }
        let before = state.starts.partition_point(|start| start.departure_us <= at_us);
        if let Some(start) = before.checked_sub(1).and_then(|index| state.starts.get(index)) {
            let at = At::Packet { train: start.train, packet: 0, skip: start.skip as u16 };
            return Located::At {
                cursor: Cursor { segment: start.segment, at },
                start_us: start.departure_us,
            };
        }
        if !state.starts.is_empty() {
            return Located::At { cursor: Cursor::START, start_us: 0 };
        }
        let after = state.slots.partition_point(|slot| slot.entry.first_departure_us <= at_us);
        let segment = after.saturating_sub(1) as u32;
        Located::At { cursor: Cursor { segment, at: At::Time(at_us) }, start_us: at_us }
    }

    /// A generation is to be packed. Answers whether whoever asks has to see to it: one packs the image at a time, and whoever
    /// does goes on with this generation after its own.
    pub(super) fn want_packed(&self, generation: u32) -> bool {
        let mut packing = self.packing.lock().unwrap_or_else(PoisonError::into_inner);
        packing.wanted = generation;
        !std::mem::replace(&mut packing.busy, true)
    }

    /// The packing of a generation is over. Answers the generation to go on with, if another is wanted by now.
    pub(super) fn packing_over(&self, generation: u32) -> Option<u32> {
        let mut packing = self.packing.lock().unwrap_or_else(PoisonError::into_inner);
        packing.busy = packing.wanted != generation;
        packing.busy.then_some(packing.wanted)
    }

    /// Its generation: 0, and one more each time that it turned out damaged.
    pub(super) fn generation(&self) -> u32 {
        self.state().generation
    }

    /// Has the image be kept in a file, in which there is nothing yet; answers whether it still is of this generation, as do
    /// [`Image::grow`] and [`Image::end`], which otherwise change nothing.
    pub(super) fn begin(&self, generation: u32, medium: Medium) -> bool {
        let mut state = self.state();
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
        let mut state = self.state();
        if state.generation != generation {
            return false;
        }
        let slot =
            |entry: &SegmentEntry| Slot { entry: *entry, verified, loading: false, loaded: Loaded::No };
        state.slots.extend(entries.iter().map(slot));
        state.starts.extend_from_slice(starts);
        let until_us = state.slots.last().map_or(0, |slot| slot.entry.first_departure_us);
        self.progress.send_replace(Progress::Growing { until_us });
        true
    }

    /// No more segments will come: all are there, or the words say why not. Then the file is let go of: nobody is kept from
    /// the room that it takes by an image that nobody can play.
    pub(super) fn end(&self, generation: u32, result: Result<Summary, Failure>) -> bool {
        let mut state = self.state();
        if state.generation != generation {
            return false;
        }
        match result {
            Ok(summary) => {
                state.summary = summary;
                self.progress.send_replace(Progress::Complete);
            }
            Err(failure) => {
                self.progress.send_replace(Progress::Failed(failure));
                let gone = state.empty();
                drop(state); // engines must not wait until a file is closed
                drop(gone);
            }
        }
        true
    }

    /// Brings a segment in; runs on a reader thread.
    fn load(&self, number: u32) {
        let index = number as usize;
        let Some(job) = self.to_load(index) else { return };
        let result = read_segment(&job.medium, &self.plan, &job.entry, job.until_us, job.verified);
        let mut state = self.state();
        // The image may have started over meanwhile; then this segment is of no use.
        if state.generation != job.generation {
            return;
        }
        let Some(slot) = state.slots.get_mut(index) else { return };
        slot.loading = false;
        match result {
            Ok(segment) => {
                slot.verified = true;
                slot.loaded = Loaded::Fresh(Arc::new(segment));
            }
            Err(error) if error.is_damage() => {
                let error = format!("segment {number}: {error}");
                let gone = self.start_over(&mut state);
                let generation = state.generation;
                drop(state);
                drop(gone);
                if let Some(this) = self.this.upgrade() {
                    (self.on_damage)(this, Damage { medium: job.medium, generation, error });
                }
            }
            Err(error) => {
                let reason = format!("segment {number} of the wire image {}: {error}", self.path.display());
                slot.loaded = Loaded::Failed { at: Instant::now(), reason: reason.into() };
                drop(state);
                tracing::warn!(asset = self.name, image = %self.path.display(), segment = number, %error,
                    "a segment of a wire image cannot be read; what plays it ends");
            }
        }
    }

    /// Empties the image for the next generation. As long as `state` is locked nobody asks for a segment: one that is gone
    /// from an image that still called itself complete would be taken for its end.
    fn start_over(&self, state: &mut State) -> (Option<Arc<Medium>>, Vec<Slot>) {
        state.generation += 1;
        self.progress.send_replace(Progress::Growing { until_us: 0 });
        state.empty()
    }

    fn to_load(&self, index: usize) -> Option<LoadJob> {
        let state = self.state();
        let slot = state.slots.get(index)?;
        Some(LoadJob {
            generation: state.generation,
            medium: Arc::clone(state.medium.as_ref()?),
            entry: slot.entry,
            until_us: state.slots.get(index + 1).map_or(u64::MAX, |next| next.entry.first_departure_us),
            verified: slot.verified,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A segment to be brought in, as it was when that was decided.
struct LoadJob {
    generation: u32,
    medium: Arc<Medium>,
    entry: SegmentEntry,
    until_us: u64,
    verified: bool,
}

impl State {
    /// Takes out what holds the file, to be dropped where that may wait.
    fn empty(&mut self) -> (Option<Arc<Medium>>, Vec<Slot>) {
        self.starts.clear();
        (self.medium.take(), std::mem::take(&mut self.slots))
    }
}

impl Drop for Image {
    /// The last to hold an image may be a thread that must not wait until its file is closed.
    fn drop(&mut self) {
        let gone = self.state().empty();
        self.readers.discard(gone);
    }
}

impl TrainSource for Image {
    fn segment(&self, number: u32) -> Load {
        let mut state = self.state();
        let Some(slot) = state.slots.get_mut(number as usize) else {
            return match &*self.progress.borrow() {
                Progress::Growing { .. } => Load::Pending,
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
            // If the readers have too much to do, the next question asks again.
            slot.loading = self.readers.submit(move || this.load(number));
        }
        Load::Pending
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

/// Reads a segment's trains, checks all of it unless that was done before, and leaves its pages in memory.
fn read_segment(
    medium: &Arc<Medium>,
    plan: &Plan,
    entry: &SegmentEntry,
    until_us: u64,
    verified: bool,
) -> Result<Segment, SegmentError> {
    let file = medium.file();
    let range = entry.offset..entry.offset + entry.length();
    let trains = if verified && PageCache::of(file, range) == PageCache::Warm {
        let records = entry.records as usize * TRAIN_RECORD_LENGTH;
        let records = read(file, entry.offset + u64::from(entry.data_length), records)?;
        entry.trains_of_records(plan, until_us, &records)?
    } else {
        entry.trains(plan, until_us, &read(file, entry.offset, entry.length() as usize)?)?
    };
    let departures = trains.iter().map(|train| departure(plan, entry, train)).collect();
    Ok(Segment { medium: Arc::clone(medium), departures })
}

#[derive(Debug, thiserror::Error)]
enum SegmentError {
    #[error(transparent)]
    Format(#[from] image::Error),
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
}

impl SegmentError {
    /// Whether the file does not give back what was written. Else a limit of this process or machine is at fault, and packing
    /// again would not help.
    fn is_damage(&self) -> bool {
        match self {
            SegmentError::Format(_) => true,
            SegmentError::Read(error) => is_lost(error),
        }
    }
}

fn read(file: &File, offset: u64, length: usize) -> Result<Vec<u8>, SegmentError> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// A train as the engine knows it.
fn departure(plan: &Plan, entry: &SegmentEntry, train: &image::Train) -> Departure {
    let train_in_medium = Train {
        offset: entry.offset + u64::from(train.offset),
        length: train.length,
        packet_size: train.packet_size,
        skip: 0,
        first: 0,
        run: train.run(plan),
    };
    Departure { at_us: train.departure_us, train: train_in_medium }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use wirepath_media::image::{Identity, Recipe};
    use wirepath_streams::Importance;

    const ENTRY: SegmentEntry = SegmentEntry {
        offset: 4096,
        data_length: 1328,
        records: 1,
        first_packet: 0,
        first_departure_us: 500,
        crc: 1,
    };

    /// An image in a file of zeros, and what is said of its damage.
    fn image() -> (Arc<Image>, Receiver<Damage>) {
        let plan = Plan {
            identity: Identity { size: 1, mtime_ns: 2, inode: 3, device: 4 },
            recipe: Recipe { ts_per_packet: 7, burst_us: 20_000 },
            ssrc: 5,
            sequence: 6,
            timestamp: 7,
        };
        let readers = BlockingPool::start("reader", 1, Importance::Equal).unwrap();
        let (damages, damaged) = channel();
        let image =
            Image::new("a.ts", "a.wpi".into(), plan, Summary::default(), readers, move |_, damage| {
                let _ = damages.send(damage); // a test may not care
            });
        assert!(image.begin(0, zeros()));
        (image, damaged)
    }

    fn failure(reason: &str) -> Failure {
        Failure { reason: reason.into(), public: reason.into() }
    }

    fn zeros() -> Medium {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 16).unwrap();
        Medium::new(file, 1 << 16).unwrap()
    }

    fn wait_for(image: &Image, what: impl Fn(&Load) -> bool) -> Load {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let load = image.segment(0);
            if what(&load) {
                return load;
            }
            assert!(Instant::now() < deadline, "{load:?}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_segment_that_the_disk_cannot_read_is_damaged() {
        assert!(SegmentError::Read(rustix::io::Errno::IO.into()).is_damage());
    }

    #[test]
    fn a_segment_that_cannot_be_read_for_lack_of_something_is_no_damage() {
        let (image, damaged) = image();
        // An offset that `pread` refuses (EINVAL) stands for too little memory (ENOMEM).
        assert!(image.grow(0, &[SegmentEntry { offset: 1 << 63, ..ENTRY }], &[], false));
        let Load::Failed(reason) = wait_for(&image, |load| !matches!(load, Load::Pending)) else { panic!() };
        assert!(reason.contains("cannot be read") && reason.contains("a.wpi"), "{reason}");
        assert!(damaged.try_recv().is_err());
        assert!(!image.has_failed());
        // Later it is tried again.
        wait_for(&image, |load| matches!(load, Load::Pending));
    }

    #[test]
    fn what_belongs_to_an_older_generation_changes_nothing() {
        let (image, damaged) = image();
        assert!(image.grow(0, &[ENTRY], &[], false));
        assert!(matches!(image.segment(0), Load::Pending));
        let damage = damaged.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!((damage.generation, image.generation()), (1, 1));
        assert!(!image.grow(0, &[ENTRY], &[], true));
        assert!(!image.begin(0, zeros()));
        assert!(!image.end(0, Ok(Summary::default())));
        assert!(!image.end(0, Err(failure("too late"))));
        assert_eq!(*image.progress().borrow(), Progress::Growing { until_us: 0 });
        assert_eq!(image.contents().unwrap(), Contents::default());
        assert!(image.begin(1, zeros()));
        assert!(image.grow(1, &[ENTRY], &[], true));
    }

    #[test]
    fn a_failed_image_lets_go_of_its_file_and_is_never_located_in() {
        let (image, _damaged) = image();
        assert_eq!(image.locate(100), Located::NotYet);
        assert!(image.grow(0, &[ENTRY], &[], true));
        assert!(matches!(image.locate(100), Located::At { .. }));
        assert!(image.end(0, Err(failure("no clock"))));
        assert_eq!(image.locate(100), Located::NotYet);
        assert!(matches!(image.locate(0), Located::At { .. }));
        assert_eq!(image.contents().unwrap(), Contents::default());
        assert!(matches!(image.segment(0), Load::Failed(_)));
    }
}
