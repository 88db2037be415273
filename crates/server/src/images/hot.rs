//! Hot memory: copies of images that sessions play, from which engine threads send, within a budget.
//!
//! A background thread copies a complete image and verifies its segments, as they are verified before they
//! are sent from a file. Meanwhile sessions continue from the file. The most popular images are held. An
//! image without sessions stays until its memory is needed for a more popular image; an image with sessions
//! is replaced by one that is played much more. An image is held as a whole or not at all. Sessions over UDP
//! and over TCP need copies of different layouts; an image that is popular over both is held twice.
//!
//! If the kernel copies the sent packets, as it does for receivers on this host, hot memory saves nothing.
//! Automatic hot memory is then freed for some time.

use std::cmp::Ordering;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use wirepath_counters::{Counter, Gauge, counters};
use wirepath_datapath::{CopyLayout, MappedFile, Region};
use wirepath_engine::{BlockingPool, Priority};
use wirepath_playback::Playbacks;

use super::demand::Demand;
use super::image::Image;
use super::read::ReadImageError;
use crate::memory_limit::available_memory;

mod complete_image;
mod options;

use complete_image::CompleteImage;
pub use options::HotMemorySize;
pub(crate) use options::HotOptions;

/// Interval of checks for completed images and free memory; a wake-up leads to a check at once.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Most images that are tried in an update, to find one that fits.
const LOOKS: usize = 16;

/// Trains sent by io_uring before the share that the kernel copied is checked: about as many as eight
/// sessions send before they stop using it.
const JUDGED_TRAINS: u64 = 64;

/// Time for which automatic hot memory is not used when it saves nothing or memory is short.
const REST: Duration = Duration::from_secs(600);

/// Reasons for that.
const COPIED: &str = "not used for ten minutes: the kernel copied what was sent from it, for receivers on this \
                      host or in its containers (--hot-memory SIZE uses it in any case)";
const SHORT: &str = "not used for ten minutes: too little memory is free";

/// Images that are hot, and candidates.
pub(crate) struct HotMemory {
    this: Weak<HotMemory>,
    options: HotOptions,
    playbacks: Arc<Playbacks>,
    copier: BlockingPool,
    wakeup: Notify,
    state: Mutex<State>,
    counters: HotCounters,
}

counters! {
    /// Counters of hot memory.
    struct HotCounters;
    /// Snapshot of the counters of hot memory.
    pub(crate) struct HotCounts;

    /// Hot memory in use, including images that are being copied or released.
    used_bytes: Gauge,
    /// Hot memory that is released when the network no longer sends from it.
    releasing_bytes: Gauge,
    /// Maximum size of hot memory.
    budget_bytes: Gauge,
    /// Copies of images in hot memory, for UDP or for TCP.
    images: Gauge,
    /// Images copied into hot memory.
    copied: Counter,
    /// Images released from hot memory while they were played, for images that are played more.
    demoted: Counter,
}

/// A session's use of hot memory, until it is dropped.
pub(crate) struct HotSession {
    memory: Arc<HotMemory>,
    image: Weak<Image>,
    layout: CopyLayout,
}

#[derive(Default)]
struct State {
    /// Number of sessions so far, used to order requests.
    requests: u64,
    entries: Vec<Entry>,
    /// Regions that engine threads may still send from. They are dropped here once nobody else holds them:
    /// freeing gigabytes takes too long for an engine thread.
    releasing: Vec<Arc<Region>>,
    /// Reason for which no more images are copied.
    disabled_reason: Option<String>,
    /// Trains sent by io_uring at the last check, and how many of them the kernel had copied.
    judged: (u64, u64),
    /// End of a rest.
    rests_until: Option<Instant>,
}

/// An image in a layout.
struct Entry {
    image: Weak<Image>,
    layout: CopyLayout,
    demand: Demand,
    last_request: u64,
    copy: Copy,
}

enum Copy {
    None,
    /// This many bytes are reserved for the image.
    Copying(u64),
    Resident {
        mapped_file: Arc<MappedFile>,
        region: Arc<Region>,
        since: Instant,
    },
    /// Copying failed and is not tried again.
    Failed,
}

impl HotMemory {
    /// Hot memory for `playbacks`, whose threads have io_urings. A task of this tokio runtime maintains it.
    pub(crate) fn start(options: HotOptions, playbacks: Arc<Playbacks>) -> io::Result<Arc<HotMemory>> {
        let memory = HotMemory::new(options, playbacks)?;
        tokio::spawn(maintain(Arc::downgrade(&memory)));
        Ok(memory)
    }

    fn new(options: HotOptions, playbacks: Arc<Playbacks>) -> io::Result<Arc<HotMemory>> {
        let copier = BlockingPool::start("hot", 1, Priority::Background)?;
        let counters = HotCounters::default();
        counters.budget_bytes.set(options.budget);
        Ok(Arc::new_cyclic(|this| HotMemory {
            this: this.clone(),
            options,
            playbacks,
            copier,
            wakeup: Notify::new(),
            state: Mutex::default(),
            counters,
        }))
    }

    /// Begins a session that plays `image` from a copy of this layout.
    pub(crate) fn session(&self, image: &Arc<Image>, layout: CopyLayout) -> Option<HotSession> {
        let memory = self.this.upgrade()?;
        let image = Arc::downgrade(image);
        let mut state = self.state.lock();
        state.requests += 1;
        let last_request = state.requests;
        let now = Instant::now();
        let known = state.entries.iter().position(|entry| entry.is_of(&image, layout));
        let index = known.unwrap_or_else(|| {
            let (demand, copy) = (Demand::new(now), Copy::None);
            state.entries.push(Entry { image: image.clone(), layout, demand, last_request, copy });
            state.entries.len() - 1
        });
        let entry = &mut state.entries[index];
        entry.demand.begin(now);
        entry.last_request = last_request;
        drop(state);
        self.wakeup.notify_one();
        Some(HotSession { memory, image, layout })
    }

    /// Counters and gauges.
    pub(crate) fn counts(&self) -> HotCounts {
        let state = self.state.lock();
        self.counters.used_bytes.set(state.used_bytes());
        self.counters.releasing_bytes.set(state.releasing_bytes());
        self.counters.images.set(state.resident().count() as u64);
        self.counters.snapshot()
    }

    /// State for `/api/status`.
    pub(crate) fn json(&self) -> Json {
        let state = self.state.lock();
        let now = Instant::now();
        let images = state.resident().filter_map(|(entry, region)| {
            let (image, demand) = (entry.image.upgrade()?, entry.demand);
            Some(json!({
                "name": image.name(),
                "transport": transport(entry.layout),
                "bytes": region.length(),
                "sessions": demand.sessions,
                "popularity": demand.score(now).round(),
            }))
        });
        json!({
            "used_bytes": state.used_bytes(),
            "budget_bytes": self.options.budget,
            "automatic": self.options.is_automatic,
            "images": images.collect::<Vec<_>>(),
            "given_up": state.disabled_reason,
        })
    }

    /// Releases copies that are no longer useful, and starts copying the next image if it fits. Never waits.
    fn update(&self) {
        let mut state = self.state.lock();
        for failed in self.playbacks.registration_failures() {
            if state.disabled_reason.is_none() {
                let error = &failed;
                match self.options.is_automatic {
                    true => tracing::info!(%error, "no more images are held in hot memory"),
                    false => {
                        tracing::warn!(%error, "no more images are held in hot memory; sessions continue without it");
                    }
                }
            }
            state.disabled_reason = Some(failed.to_string());
            let is_it = |entry: &Entry| match &entry.copy {
                Copy::Resident { region, .. } => region.id() == failed.region_id,
                _ => false,
            };
            if let Some(index) = state.entries.iter().position(is_it) {
                self.release(&mut state, index, Copy::Failed);
            }
        }
        if self.options.is_automatic {
            self.judge_copies(&mut state);
        }
        self.release_stale(&mut state);
        self.free_unused(&mut state);
        if state.disabled_reason.is_none() && !state.is_copying() {
            self.copy_next(&mut state);
        }
    }

    /// Ends a pause whose time is over. Begins a pause if the kernel copies half of the trains sent from hot
    /// memory.
    fn judge_copies(&self, state: &mut State) {
        if state.rests_until.is_some_and(|until| Instant::now() >= until) {
            (state.rests_until, state.disabled_reason) = (None, None);
        }
        let (lent, copied) = self.playbacks.lent();
        if state.disabled_reason.is_some() || state.resident().next().is_none() {
            state.judged = (lent, copied);
            return;
        }
        let (new_lent, new_copied) = (lent - state.judged.0, copied - state.judged.1);
        if new_lent < JUDGED_TRAINS {
            return;
        }
        state.judged = (lent, copied);
        if new_copied >= new_lent / 2 {
            state.rest(COPIED);
            (0..state.entries.len()).for_each(|index| self.release(state, index, Copy::None));
        }
    }

    /// Releases copies of images that were closed or started over.
    fn release_stale(&self, state: &mut State) {
        for index in (0..state.entries.len()).rev() {
            let entry = &state.entries[index];
            let image = entry.image.upgrade();
            let is_stale = match (&image, &entry.copy) {
                (None, _) => true,
                (Some(image), Copy::Resident { mapped_file, .. }) => {
                    !image.whole().is_some_and(|whole| Arc::ptr_eq(&whole.mapped_file, mapped_file))
                }
                _ => false,
            };
            if is_stale {
                self.release(state, index, Copy::None);
            }
            if image.is_none() {
                state.entries.swap_remove(index);
            }
        }
    }

    /// Withdraws an entry's copy from the engine threads.
    fn release(&self, state: &mut State, index: usize, instead: Copy) {
        let before = std::mem::replace(&mut state.entries[index].copy, instead);
        if let Copy::Resident { mapped_file, region, .. } = before {
            mapped_file.set_hot(state.entries[index].layout, None);
            // This may be the last reference; this code runs on the control thread.
            self.copier.discard(mapped_file);
            self.playbacks.unregister(&region);
            state.releasing.push(region);
        }
    }

    /// Drops regions without other references, on the copier's thread.
    fn free_unused(&self, state: &mut State) {
        let unused: Vec<_> =
            state.releasing.extract_if(.., |region| Arc::strong_count(region) == 1).collect();
        if !unused.is_empty() && !self.copier.submit(move || drop(unused)) {
            tracing::debug!("hot memory was freed at once: the copier has too much to do");
        }
    }

    /// Starts copying the most popular image that is played and fits; of equally popular images, the one
    /// requested last.
    fn copy_next(&self, state: &mut State) {
        let now = Instant::now();
        let scores: Vec<f64> = state.entries.iter().map(|entry| entry.demand.score(now)).collect();
        let least = self.options.least_sessions;
        let is_wanted = |entry: &Entry| entry.demand.sessions >= least && matches!(entry.copy, Copy::None);
        let mut wanted: Vec<usize> =
            (0..state.entries.len()).filter(|index| is_wanted(&state.entries[*index])).collect();
        wanted.sort_by(|one, other| state.order(*other, *one, &scores));
        let complete = wanted.into_iter().filter_map(|index| {
            let Entry { image, layout, .. } = &state.entries[index];
            Some((index, CompleteImage::of(image.upgrade()?, *layout)?))
        });
        let fits = |(index, image): &(usize, CompleteImage)| {
            let stays = |(other, entry): &(usize, &Entry)| {
                !self.is_replaceable(entry, scores[*other], scores[*index], now)
            };
            let entries = state.entries.iter().enumerate().filter(stays);
            entries.map(|(_, entry)| entry.copy.bytes()).sum::<u64>() + image.length <= self.options.budget
        };
        let Some((index, complete)) = complete.take(LOOKS).find(fits) else { return };
        if !self.make_room(state, complete.length, index, &scores, now) {
            return; // regions are still in use: the next update tries again
        }
        if self.options.is_automatic && available_memory() < 2 * complete.length {
            return state.rest(SHORT);
        }
        state.entries[index].copy = Copy::Copying(complete.length);
        let memory = self.this.clone();
        let image = state.entries[index].image.clone();
        let submitted = self.copier.submit(move || {
            let copy = complete.copy();
            if let Some(memory) = memory.upgrade() {
                memory.finish_copy(&image, complete, copy);
            }
        });
        if !submitted {
            state.entries[index].copy = Copy::None;
        }
    }

    /// Returns whether an entry's copy, whose own score is given, is replaced by an image of this score.
    fn is_replaceable(&self, entry: &Entry, own: f64, score: f64, now: Instant) -> bool {
        let Copy::Resident { since, .. } = entry.copy else { return false };
        let has_stayed = entry.demand.sessions == 0 || now.duration_since(since) >= self.options.least_stay;
        has_stayed && entry.demand.yields_to(score, own)
    }

    /// Releases images that the image of this index replaces, the least popular first, until there is room.
    /// Returns whether there is room now.
    fn make_room(&self, state: &mut State, needed: u64, image: usize, scores: &[f64], now: Instant) -> bool {
        // Regions that are being released count as free, so that no further images are released for them.
        while state.held_bytes() + needed > self.options.budget {
            let is_replaceable = |index: &usize| {
                self.is_replaceable(&state.entries[*index], scores[*index], scores[image], now)
            };
            let replaceable = (0..state.entries.len()).filter(is_replaceable);
            let Some(index) = replaceable.min_by(|one, other| state.order(*one, *other, scores)) else {
                return false;
            };
            self.counters.demoted.add(u64::from(state.entries[index].demand.sessions > 0));
            self.release(state, index, Copy::None);
        }
        state.used_bytes() + needed <= self.options.budget
    }

    /// Ends a copy; on the copier's thread.
    fn finish_copy(
        &self,
        image: &Weak<Image>,
        complete: CompleteImage,
        copy: Result<Region, ReadImageError>,
    ) {
        let mut state = self.state.lock();
        let layout = complete.layout;
        let Some(entry) = state.entries.iter_mut().find(|entry| entry.is_of(image, layout)) else { return };
        if !matches!(entry.copy, Copy::Copying(_)) {
            return; // it was released meanwhile
        }
        let (asset, bytes, transport) = (complete.image.name(), complete.length, transport(layout));
        match copy {
            Ok(region) => {
                let region = Arc::new(region);
                complete.mapped_file.set_hot(layout, Some(&region));
                self.playbacks.register(&region);
                tracing::info!(asset, transport, bytes, "an image is held in hot memory");
                let mapped_file = Arc::clone(&complete.mapped_file);
                entry.copy = Copy::Resident { mapped_file, region, since: Instant::now() };
                self.counters.copied.increment();
            }
            Err(error) => {
                tracing::warn!(asset, transport, bytes, %error, "an image cannot be held in hot memory");
                entry.copy = Copy::Failed;
            }
        }
        drop(state);
        self.wakeup.notify_one();
    }
}

/// Transport of the sessions that play from a copy of this layout.
fn transport(layout: CopyLayout) -> &'static str {
    match layout {
        CopyLayout::Packets => "udp",
        CopyLayout::Frames => "tcp",
    }
}

/// Updates the memory until all other references to it are dropped.
async fn maintain(memory: Weak<HotMemory>) {
    while let Some(memory) = memory.upgrade() {
        memory.update();
        // Each of these events causes an update.
        let _ = tokio::time::timeout(POLL_INTERVAL, memory.wakeup.notified()).await;
    }
}

impl Drop for HotSession {
    fn drop(&mut self) {
        let mut state = self.memory.state.lock();
        if let Some(entry) = state.entries.iter_mut().find(|entry| entry.is_of(&self.image, self.layout)) {
            entry.demand.end();
        }
        drop(state);
        self.memory.wakeup.notify_one();
    }
}

impl State {
    /// Copies nothing more for a time.
    fn rest(&mut self, reason: &str) {
        tracing::info!("hot memory is {reason}");
        self.disabled_reason = Some(reason.to_owned());
        self.rests_until = Some(Instant::now() + REST);
    }

    fn resident(&self) -> impl Iterator<Item = (&Entry, &Arc<Region>)> {
        self.entries.iter().filter_map(|entry| match &entry.copy {
            Copy::Resident { region, .. } => Some((entry, region)),
            _ => None,
        })
    }

    /// Bytes of images that are resident or being copied.
    fn held_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.copy.bytes()).sum()
    }

    /// Bytes of images that are resident, being copied or being released.
    fn used_bytes(&self) -> u64 {
        self.held_bytes() + self.releasing_bytes()
    }

    /// Bytes of images that are being released.
    fn releasing_bytes(&self) -> u64 {
        self.releasing.iter().map(|region| region.length() as u64).sum()
    }

    fn is_copying(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.copy, Copy::Copying(_)))
    }

    /// Order of two entries: by popularity, then by their last request.
    fn order(&self, one: usize, other: usize, scores: &[f64]) -> Ordering {
        let last_request = |index: usize| self.entries[index].last_request;
        scores[one].total_cmp(&scores[other]).then(last_request(one).cmp(&last_request(other)))
    }
}

impl Entry {
    fn is_of(&self, image: &Weak<Image>, layout: CopyLayout) -> bool {
        self.layout == layout && self.image.ptr_eq(image)
    }
}

impl Copy {
    fn bytes(&self) -> u64 {
        match self {
            Copy::None | Copy::Failed => 0,
            Copy::Copying(bytes) => *bytes,
            Copy::Resident { region, .. } => region.length() as u64,
        }
    }
}

#[cfg(test)]
mod tests;
