//! A wire image that is open: a source of trains, complete or still being packed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;
use wirepath_media::image::{self, Plan, SegmentEntry, Start, TRAIN_RECORD_LENGTH};
use wirepath_streams::datapath::{Medium, PageCache, Train};
use wirepath_streams::{At, BlockingPool, Cursor, Departure, Load, Segment, TrainSource};

use super::summary::Summary;

/// A wire image that is open. Its segments are brought in, checked and shared as playbacks ask for them.
pub struct Image {
    this: Weak<Image>,
    name: String,
    plan: Plan,
    readers: BlockingPool,
    on_damage: Box<dyn Fn(Arc<Image>) + Send + Sync>,
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
    asset_bytes_packed: AtomicU64,
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
    /// It will not be complete; the words say why. What was there until then could be played.
    Failed(Arc<str>),
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

struct State {
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
}

impl Image {
    /// An image of which there is nothing yet. `on_damage` is called on a reader thread when a segment turns out damaged, after
    /// which the image is empty and grows again.
    pub(super) fn new(
        name: &str,
        plan: Plan,
        summary: Summary,
        readers: BlockingPool,
        on_damage: impl Fn(Arc<Image>) + Send + Sync + 'static,
    ) -> Arc<Image> {
        let state = State { medium: None, slots: Vec::new(), starts: Vec::new(), summary };
        Arc::new_cyclic(|this| Image {
            this: this.clone(),
            name: name.to_owned(),
            plan,
            readers,
            on_damage: Box::new(on_damage),
            state: Mutex::new(state),
            progress: watch::Sender::new(Progress::Growing { until_us: 0 }),
            asset_bytes_packed: AtomicU64::new(0),
        })
    }

    /// What people call its asset.
    pub fn name(&self) -> &str {
        &self.name
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

    /// Where to begin for a time in microseconds from the start: at the last random access point at or before it, or exactly
    /// there where there are none. The start of the image is always a place to begin.
    pub fn locate(&self, at_us: u64) -> Located {
        let progress = self.progress.borrow().clone();
        let state = self.state();
        if at_us == 0 {
            return Located::At { cursor: Cursor::START, start_us: 0 };
        }
        match progress {
            Progress::Growing { until_us } if at_us >= until_us => return Located::NotYet,
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

    /// Starts over with another file, in which there is nothing yet.
    pub(super) fn begin(&self, medium: Medium) {
        let mut state = self.state();
        state.medium = Some(Arc::new(medium));
        self.start_over(&mut state);
    }

    /// Adds segments that are in the file now. Those whose checksum was computed from what was written count as verified.
    pub(super) fn grow(&self, entries: &[SegmentEntry], starts: &[Start], verified: bool) {
        let mut state = self.state();
        let slot =
            |entry: &SegmentEntry| Slot { entry: *entry, verified, loading: false, loaded: Loaded::No };
        state.slots.extend(entries.iter().map(slot));
        state.starts.extend_from_slice(starts);
        let until_us = state.slots.last().map_or(0, |slot| slot.entry.first_departure_us);
        drop(state);
        self.progress.send_replace(Progress::Growing { until_us });
    }

    /// No more segments will come: all are there, or the words say why not.
    pub(super) fn end(&self, result: Result<Summary, Arc<str>>) {
        match result {
            Ok(summary) => {
                self.state().summary = summary;
                self.progress.send_replace(Progress::Complete);
            }
            Err(reason) => {
                self.progress.send_replace(Progress::Failed(reason));
            }
        }
    }

    /// Brings a segment in; runs on a reader thread.
    fn load(&self, number: u32) {
        let index = number as usize;
        let Some((medium, entry, until_us, verified)) = self.to_load(index) else { return };
        let result = read_segment(&medium, &self.plan, &entry, until_us, verified);
        let mut state = self.state();
        // The image may have started over meanwhile; then this segment is of no use.
        let Some(slot) = state.slots.get_mut(index).filter(|slot| slot.entry == entry) else { return };
        slot.loading = false;
        match result {
            Ok(segment) => {
                slot.verified = true;
                slot.loaded = Loaded::Fresh(Arc::new(segment));
            }
            Err(error) => {
                tracing::warn!(segment = number, %error, "a wire image is damaged; it is packed again");
                self.start_over(&mut state);
                drop(state);
                if let Some(this) = self.this.upgrade() {
                    (self.on_damage)(this);
                }
            }
        }
    }

    /// Empties the image. As long as `state` is locked nobody asks for a segment: one that is gone from an image that still
    /// called itself complete would be taken for its end.
    fn start_over(&self, state: &mut State) {
        state.slots.clear();
        state.starts.clear();
        self.progress.send_replace(Progress::Growing { until_us: 0 });
    }

    fn to_load(&self, index: usize) -> Option<(Arc<Medium>, SegmentEntry, u64, bool)> {
        let state = self.state();
        let slot = state.slots.get(index)?;
        let until_us = state.slots.get(index + 1).map_or(u64::MAX, |next| next.entry.first_departure_us);
        Some((Arc::clone(state.medium.as_ref()?), slot.entry, until_us, slot.verified))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrainSource for Image {
    fn segment(&self, number: u32) -> Load {
        let mut state = self.state();
        let Some(slot) = state.slots.get_mut(number as usize) else {
            return match &*self.progress.borrow() {
                Progress::Growing { .. } => Load::Pending,
                Progress::Complete => Load::End,
                Progress::Failed(reason) => Load::Failed(Arc::clone(reason)),
            };
        };
        if let Some(segment) = slot.take() {
            return Load::Ready(segment);
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
        }?;
        self.loaded = Loaded::Shared(Arc::downgrade(&segment));
        Some(segment)
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
