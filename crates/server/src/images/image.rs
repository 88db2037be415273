//! An open wire image: a source of trains, complete or still being packed.

mod growth;
mod index;
mod loading;
mod places;
mod recording;
mod source;
mod state;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::watch;
use wirepath_datapath::MappedFile;
use wirepath_media::image::{Layout, Plan, SegmentEntry};

use super::page_memory::Readers;
use super::progress::{Contents, Progress};
use super::summary::Summary;
use super::work_queue::UrgencySignal;
use state::State;

pub(super) use index::WholeIndex;

/// A complete image.
pub(super) struct WholeImage {
    pub(super) mapped_file: Arc<MappedFile>,
    /// Length of all segments in bytes.
    pub(super) length: u64,
    /// Number of packets.
    pub(super) packets: u64,
}

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
    /// Notified when a playback needs more of the image sooner, while it is being packed.
    urgency_signal: OnceLock<Arc<UrgencySignal>>,
    progress: watch::Sender<Progress>,
    /// Seeks that wait for the image to grow.
    waiting_seeks: AtomicUsize,
    asset_bytes_packed: AtomicU64,
    /// Bytes of packets that playbacks got to send from the asset.
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
    /// True if the index records the damage of the asset, so that playbacks can continue from the asset.
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

impl Image {
    /// An empty image, which counts in `played` the bytes that playbacks send from the asset. `on_damage` is
    /// called on a thread of the pool when a segment is found damaged; the image is then empty and grows
    /// again.
    pub(super) fn new(
        name: &str,
        path: PathBuf,
        plan: Plan,
        summary: Summary,
        readers: Readers,
        played: Arc<AtomicU64>,
        on_damage: impl Fn(Arc<Image>, Damage) + Send + Sync + 'static,
    ) -> Arc<Image> {
        Arc::new_cyclic(|this| Image {
            this: this.clone(),
            name: name.to_owned(),
            path,
            plan,
            readers,
            on_damage: Box::new(on_damage),
            state: Mutex::new(State::new(summary)),
            packing: Mutex::default(),
            urgency_signal: OnceLock::new(),
            progress: watch::Sender::new(Progress::Growing { until_us: 0 }),
            waiting_seeks: AtomicUsize::new(0),
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

    /// Duration in microseconds, if known.
    pub fn duration_us(&self) -> Option<u64> {
        self.state.lock().summary.duration_us
    }

    /// Progress of packing, for watching.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Bytes of the asset packed since the last start of packing; 0 for an image from the cache.
    pub fn asset_bytes_packed(&self) -> u64 {
        self.asset_bytes_packed.load(Relaxed)
    }

    /// Contents by now.
    pub fn contents(&self) -> io::Result<Contents> {
        let state = self.state.lock();
        let entries = || state.slots.iter().map(|slot| &slot.entry);
        Ok(Contents {
            packets: entries().map(|entry| u64::from(entry.packets)).sum(),
            trains: entries().map(|entry| u64::from(entry.records)).sum(),
            stored_bytes: match &state.files {
                Some(files) => files.stored.file().metadata()?.len(),
                None => 0,
            },
        })
    }

    /// Returns whether the image will never be complete.
    pub(super) fn has_failed(&self) -> bool {
        matches!(*self.progress.borrow(), Progress::Failed(_))
    }

    /// The image once it is complete. None for an index.
    pub(super) fn whole(&self) -> Option<WholeImage> {
        let state = self.state.lock();
        let complete = *self.progress.borrow() == Progress::Complete;
        let files = state.files.as_ref().filter(|files| complete && files.asset.is_none())?;
        let last = &state.slots.last()?.entry;
        Some(WholeImage {
            mapped_file: Arc::clone(&files.stored),
            length: last.offset + last.length(),
            packets: last.first_packet + u64::from(last.packets),
        })
    }

    /// Returns whether there is a segment of this number; none if that is not known yet.
    pub fn has_segment(&self, number: u32) -> Option<bool> {
        let state = self.state.lock();
        let is_growing = matches!(*self.progress.borrow(), Progress::Growing { .. });
        match (number as usize) < state.slots.len() {
            true => Some(true),
            false => (!is_growing).then_some(false),
        }
    }

    /// Returns whether payload is sent from the asset, not from an image.
    pub fn is_sent_from_asset(&self) -> bool {
        self.state.lock().files.as_ref().is_some_and(|files| files.asset.is_some())
    }

    /// Bytes of packets that playbacks got to send from the asset, since it was first played.
    pub(super) fn asset_bytes_played(&self) -> u64 {
        self.asset_bytes_played.load(Relaxed)
    }

    /// Returns whether payload is sent from the asset by a complete index.
    pub(super) fn has_whole_index(&self) -> bool {
        self.is_sent_from_asset() && *self.progress.borrow() == Progress::Complete
    }

    /// The segments by now.
    pub(super) fn segments(&self) -> Vec<SegmentEntry> {
        self.state.lock().slots.iter().map(|slot| slot.entry).collect()
    }

    /// The generation: 0, plus one for each time that the image was found damaged.
    pub(super) fn generation(&self) -> u32 {
        self.state.lock().generation
    }
}

impl Drop for Image {
    /// A thread that must not wait for closing the file may drop the last reference to an image.
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let gone = (state.empty(), state.index.take());
        self.readers.pool.discard(gone);
    }
}

#[cfg(test)]
mod tests;
