//! Hot memory: copies of the images that sessions play, for engine threads to send from, within a budget.
//!
//! A copy is made by a background thread, of an image that is complete, and checked as a segment is before it
//! is sent. Sessions go on from the file meanwhile. What nobody plays any more stays until its room is
//! needed, least recently asked for first. An image is held whole or not at all.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use wirepath_datapath::{MappedFile, Region};
use wirepath_engine::{BlockingPool, Priority};
use wirepath_media::image;
use wirepath_playback::Playbacks;

use super::image::Image;

/// Interval of checks for completed images and free memory; a request leads to a check at once.
const LOOK: Duration = Duration::from_secs(1);

/// Which images are hot, and which could be.
pub struct HotMemory {
    this: Weak<HotMemory>,
    budget: u64,
    playbacks: Arc<Playbacks>,
    copier: BlockingPool,
    asked: Notify,
    state: Mutex<State>,
    copied: AtomicU64,
}

/// One session's playing of an image, as far as hot memory is concerned. Over when dropped.
pub struct HotSession {
    memory: Arc<HotMemory>,
    image: Weak<Image>,
}

/// An image that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotImage {
    /// Name of its asset.
    pub name: String,
    /// Bytes of the budget that it takes.
    pub bytes: u64,
    /// Sessions that play it.
    pub sessions: usize,
}

#[derive(Default)]
struct State {
    /// Counts what was asked for, to know what was asked for last.
    turn: u64,
    entries: Vec<Entry>,
    /// Regions that engine threads may still send from. They are dropped here, when nobody else holds them:
    /// giving back gigabytes takes time, which engine threads do not have.
    leaving: Vec<Arc<Region>>,
    /// Reason for which nothing more is copied.
    given_up: Option<String>,
}

struct Entry {
    image: Weak<Image>,
    sessions: usize,
    asked: u64,
    copy: Copy,
}

enum Copy {
    None,
    /// So many bytes are set aside for it.
    Making(u64),
    Held {
        medium: Arc<MappedFile>,
        region: Arc<Region>,
    },
    /// It could not be had, and is not tried again.
    Refused,
}

impl HotMemory {
    /// Hot memory of at most `budget` bytes for `playbacks`, whose threads have io_urings.
    ///
    /// Looks after itself on the tokio runtime that this is called on.
    ///
    /// # Errors
    /// An error of starting a thread.
    pub fn start(budget: u64, playbacks: Arc<Playbacks>) -> io::Result<Arc<HotMemory>> {
        let memory = HotMemory::new(budget, playbacks)?;
        tokio::spawn(keep(Arc::downgrade(&memory)));
        Ok(memory)
    }

    fn new(budget: u64, playbacks: Arc<Playbacks>) -> io::Result<Arc<HotMemory>> {
        let copier = BlockingPool::start("hot", 1, Priority::Background)?;
        Ok(Arc::new_cyclic(|this| HotMemory {
            this: this.clone(),
            budget,
            playbacks,
            copier,
            asked: Notify::new(),
            state: Mutex::default(),
            copied: AtomicU64::new(0),
        }))
    }

    /// A session begins to play `image`.
    pub fn session(&self, image: &Arc<Image>) -> Option<HotSession> {
        let memory = self.this.upgrade()?;
        let mut state = self.state.lock();
        state.turn += 1;
        let asked = state.turn;
        match state.entries.iter_mut().find(|entry| entry.is_of(image)) {
            Some(entry) => (entry.sessions, entry.asked) = (entry.sessions + 1, asked),
            None => {
                let image = Arc::downgrade(image);
                state.entries.push(Entry { image, sessions: 1, asked, copy: Copy::None });
            }
        }
        drop(state);
        self.asked.notify_one();
        Some(HotSession { memory, image: Arc::downgrade(image) })
    }

    /// Budget in bytes.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Bytes in use, of copies being made and of regions that the network still sends from, too.
    pub fn used(&self) -> u64 {
        self.state.lock().used()
    }

    /// Copies made so far.
    pub fn copied(&self) -> u64 {
        self.copied.load(Relaxed)
    }

    /// Reason for which nothing more is copied, if there is one.
    pub fn given_up(&self) -> Option<String> {
        self.state.lock().given_up.clone()
    }

    /// Images that are held.
    pub fn images(&self) -> Vec<HotImage> {
        let hot = |entry: &Entry| {
            let Copy::Held { region, .. } = &entry.copy else { return None };
            let name = entry.image.upgrade()?.name().to_owned();
            Some(HotImage { name, bytes: region.length() as u64, sessions: entry.sessions })
        };
        self.state.lock().entries.iter().filter_map(hot).collect()
    }

    /// Lets go of what is of no use any more, and has the next image copied if there is room. Never waits.
    fn look(&self) {
        let mut state = self.state.lock();
        for failed in self.playbacks.registration_failures() {
            if state.given_up.is_none() {
                tracing::warn!(error = %failed, "no more images are held in hot memory; sessions go on without");
            }
            state.given_up = Some(failed.to_string());
            let is_it = |entry: &Entry| matches!(&entry.copy, Copy::Held { region, .. } if region.id() == failed.region_id);
            if let Some(place) = state.entries.iter().position(is_it) {
                self.let_go(&mut state, place, Copy::Refused);
            }
        }
        self.forget_stale(&mut state);
        self.free_unused(&mut state);
        if state.given_up.is_none() && !state.is_copying() {
            self.copy_next(&mut state);
        }
    }

    /// Lets go of copies of images that are closed, or started over.
    fn forget_stale(&self, state: &mut State) {
        for place in (0..state.entries.len()).rev() {
            let entry = &state.entries[place];
            let image = entry.image.upgrade();
            let is_stale = match (&image, &entry.copy) {
                (None, _) => true,
                (Some(image), Copy::Held { medium, .. }) => {
                    !image.whole().is_some_and(|(current, _)| Arc::ptr_eq(&current, medium))
                }
                _ => false,
            };
            if is_stale {
                self.let_go(state, place, Copy::None);
            }
            if image.is_none() {
                state.entries.swap_remove(place);
            }
        }
    }

    /// Takes an entry's copy away from the engine threads.
    fn let_go(&self, state: &mut State, place: usize, instead: Copy) {
        let before = std::mem::replace(&mut state.entries[place].copy, instead);
        if let Copy::Held { medium, region } = before {
            medium.set_hot(None);
            // Of an image that is closed nobody else has it, and this is the control thread.
            self.copier.discard(medium);
            self.playbacks.unregister(&region);
            state.leaving.push(region);
        }
    }

    /// Drops regions that nobody else has, where that may take time.
    fn free_unused(&self, state: &mut State) {
        let (unused, leaving) =
            state.leaving.drain(..).partition(|region: &Arc<Region>| Arc::strong_count(region) == 1);
        state.leaving = leaving;
        let unused: Vec<Arc<Region>> = unused;
        if !unused.is_empty() && !self.copier.submit(move || drop(unused)) {
            tracing::debug!("hot memory was given back at once: the copier has too much to do");
        }
    }

    /// Has the image that was asked for last, of those that are played and fit, copied.
    fn copy_next(&self, state: &mut State) {
        let mut wanted: Vec<_> = state
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.sessions > 0 && matches!(entry.copy, Copy::None))
            .filter_map(|(place, entry)| Some((entry.asked, place, Whole::of(entry.image.upgrade()?)?)))
            .collect();
        wanted.sort_by_key(|(asked, ..)| std::cmp::Reverse(*asked));
        let Some((_, place, whole)) =
            wanted.into_iter().find(|(.., whole)| state.could_have(whole.length, self.budget))
        else {
            return;
        };
        if !self.make_room(state, whole.length) {
            return; // what leaves has not left yet: it is looked again
        }
        state.entries[place].copy = Copy::Making(whole.length);
        let memory = self.this.clone();
        let image = state.entries[place].image.clone();
        let submitted = self.copier.submit(move || {
            let copy = whole.copy();
            if let Some(memory) = memory.upgrade() {
                memory.copied_one(&image, whole, copy);
            }
        });
        if !submitted {
            state.entries[place].copy = Copy::None;
        }
    }

    /// Lets go of what nobody plays, least recently asked for first, until there is room; answers whether
    /// there is now.
    fn make_room(&self, state: &mut State, needed: u64) -> bool {
        // What is leaving is as good as gone: nothing more goes for its sake.
        while state.kept() + needed > self.budget {
            let unused = |entry: &&Entry| entry.sessions == 0 && matches!(entry.copy, Copy::Held { .. });
            let oldest = state.entries.iter().filter(unused).map(|entry| entry.asked).min();
            let Some(place) = state.entries.iter().position(|entry| Some(entry.asked) == oldest) else {
                return false;
            };
            self.let_go(state, place, Copy::None);
        }
        state.used() + needed <= self.budget
    }

    /// A copy is there, or cannot be had; on the copier's thread.
    fn copied_one(&self, image: &Weak<Image>, whole: Whole, copy: Result<Region, CopyError>) {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.iter_mut().find(|entry| entry.image.ptr_eq(image)) else { return };
        match copy {
            Ok(region) => {
                let region = Arc::new(region);
                whole.medium.set_hot(Some(&region));
                self.playbacks.register(&region);
                tracing::info!(
                    asset = whole.image.name(),
                    bytes = whole.length,
                    "an image is held in hot memory"
                );
                entry.copy = Copy::Held { medium: whole.medium, region };
                self.copied.fetch_add(1, Relaxed);
            }
            Err(error) => {
                tracing::warn!(asset = whole.image.name(), bytes = whole.length, %error,
                    "an image cannot be held in hot memory");
                entry.copy = Copy::Refused;
            }
        }
        drop(state);
        self.asked.notify_one();
    }
}

/// Looks after it for as long as anybody else has it.
async fn keep(memory: Weak<HotMemory>) {
    while let Some(memory) = memory.upgrade() {
        memory.look();
        // Either is a reason to look again.
        let _ = tokio::time::timeout(LOOK, memory.asked.notified()).await;
    }
}

impl Drop for HotSession {
    fn drop(&mut self) {
        let mut state = self.memory.state.lock();
        if let Some(entry) = state.entries.iter_mut().find(|entry| entry.image.ptr_eq(&self.image)) {
            entry.sessions -= 1;
        }
        drop(state);
        self.memory.asked.notify_one();
    }
}

impl State {
    /// Bytes of what is held and of what is being copied.
    fn kept(&self) -> u64 {
        self.entries.iter().map(|entry| entry.copy.bytes()).sum()
    }

    /// The same, and of what is leaving.
    fn used(&self) -> u64 {
        self.kept() + self.leaving.iter().map(|region| region.length() as u64).sum::<u64>()
    }

    fn is_copying(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.copy, Copy::Making(_)))
    }

    /// Returns whether so many bytes have room if all goes that nobody plays.
    fn could_have(&self, length: u64, budget: u64) -> bool {
        let played = self.entries.iter().filter(|entry| entry.sessions > 0);
        played.map(|entry| entry.copy.bytes()).sum::<u64>() + length <= budget
    }
}

impl Entry {
    fn is_of(&self, image: &Arc<Image>) -> bool {
        std::ptr::eq(self.image.as_ptr(), Arc::as_ptr(image))
    }
}

impl Copy {
    fn bytes(&self) -> u64 {
        match self {
            Copy::None | Copy::Refused => 0,
            Copy::Making(bytes) => *bytes,
            Copy::Held { region, .. } => region.length() as u64,
        }
    }
}

/// A complete image, to be copied.
struct Whole {
    /// Dropped before the image, which has its file closed elsewhere.
    medium: Arc<MappedFile>,
    image: Arc<Image>,
    length: u64,
}

/// An image could not be copied.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error(transparent)]
    Format(#[from] image::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Whole {
    /// An image, if it is complete and there is something in it.
    fn of(image: Arc<Image>) -> Option<Whole> {
        let (medium, length) = image.whole()?;
        Some(Whole { medium, image, length })
    }

    /// A copy of all segments, each checked as it is before it is sent from the file. Should the image start
    /// over meanwhile, this is a copy of what it was, which nobody plays, and is let go of.
    fn copy(&self) -> Result<Region, CopyError> {
        self.medium.copy(self.length, |bytes| {
            let segments = self.image.segments();
            let ends = segments.iter().skip(1).map(|next| next.first_departure_us);
            for (entry, until_us) in segments.iter().zip(ends.chain([u64::MAX])) {
                let range = entry.offset as usize..(entry.offset + entry.length()) as usize;
                let segment =
                    bytes.get(range).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
                entry.trains(self.image.plan(), until_us, segment)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
