//! Recordings: files to which a recorder appends, and whose images grow with them.
//!
//! Packing continues where it was: its job leaves the queue when all that the recorder has written is packed, and
//! returns to the queue when the file has changed.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use std::{io, mem};

use parking_lot::Mutex;
use wirepath_engine::catch_panic;
use wirepath_media::image::Identity;
use wirepath_media::pack::Packed;

use super::Store;
use super::job::Job;
use super::places::{Place, Places};
use crate::images::error::{StoreError, io_error};
use crate::images::follow::age;
use crate::images::work_queue::Work;
use crate::library;

/// Interval of polling for growth, and the least time between two segments of a recording. Network file systems do
/// not notify of growth.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Recordings that are packed as far as they are written.
pub(super) struct Recordings {
    waiting: Mutex<VecDeque<Recording>>,
    /// Places of recordings that are followed, waiting or being packed.
    places: Places,
    /// Wakes the polling thread, which ends when this is dropped.
    signal: Sender<()>,
}

/// Recording whose packing waits for growth.
struct Recording {
    job: Job,
    /// Version at the last poll, and the time of its last change.
    seen: Identity,
    changed: Instant,
    /// Time since which nobody has played or requested it.
    rests_since: Option<Instant>,
}

impl Recordings {
    /// No recordings, and the signals for [`start`].
    pub(super) fn new() -> (Recordings, Receiver<()>) {
        let (signal, signals) = channel();
        (Recordings { waiting: Mutex::default(), places: Places::default(), signal }, signals)
    }
}

/// Starts the thread that polls for growth, which waits while there are no recordings and ends with the store.
pub(super) fn start(store: &Arc<Store>, signals: Receiver<()>) -> io::Result<()> {
    let store = Arc::downgrade(store);
    thread::Builder::new().name("recordings".to_owned()).spawn(move || run(&store, &signals)).map(drop)
}

fn run(store: &Weak<Store>, signals: &Receiver<()>) {
    loop {
        let Some(has_none) = store.upgrade().map(|store| store.recordings.waiting.lock().is_empty()) else {
            return;
        };
        if has_none && signals.recv().is_err() {
            return;
        }
        let until = Instant::now() + POLL_INTERVAL;
        loop {
            match signals.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let Some(store) = store.upgrade() else { return };
        if catch_panic(|| store.poll_recordings()).is_err() {
            tracing::error!("polling of recordings panicked, which is a bug; a recording is dropped");
        }
    }
}

impl Store {
    /// Packs a recording on when it has grown. Only one that was not followed yet can be refused.
    pub(super) fn follow(&self, mut job: Job, packed: Packed) {
        job.goal.image.note_all_packed(job.goal.generation, packed);
        let seen = job.goal.image.identity();
        let mut changed = Instant::now();
        if job.place.is_none() {
            let Some(place) = self.place_for(&job) else { return job.goal.fail(&StoreError::Busy) };
            job.place = Some(place);
            // The file may have rested since before it was requested.
            changed = changed.checked_sub(age(seen)).unwrap_or(changed);
        }
        let recording = Recording { job, seen, changed, rests_since: None };
        self.recordings.waiting.lock().push_back(recording);
        // Fails only while the store is dropped.
        _ = self.recordings.signal.send(());
    }

    /// A place for a recording, if need be that of the one that has rested longest.
    fn place_for(&self, job: &Job) -> Option<Place> {
        let held_bytes = |recordings: &VecDeque<Recording>| {
            recordings.iter().map(|recording| recording.job.held_bytes()).sum::<u64>()
        };
        loop {
            let held_bytes = held_bytes(&self.recordings.waiting.lock()) + job.held_bytes();
            if held_bytes <= self.options.packing_memory_bytes
                && let Some(place) = self.recordings.places.take()
            {
                return Some(place);
            }
            let evicted = {
                let mut waiting = self.recordings.waiting.lock();
                let resting = waiting.iter().enumerate();
                let resting = resting.filter_map(|(index, recording)| Some((recording.rests_since?, index)));
                let mut resting: Vec<_> = resting.collect();
                resting.sort_unstable();
                let is_abandoned = |index: &usize| waiting.get(*index).is_some_and(|one| self.abandons(one));
                let index = resting.into_iter().map(|(_, index)| index).find(is_abandoned)?;
                waiting.remove(index)?
            };
            evicted.job.goal.fail(&StoreError::Stopped);
        }
    }

    /// Stops following recordings that nobody plays or requests.
    pub(super) fn evict_recordings(&self) {
        let evicted = {
            let mut waiting = self.recordings.waiting.lock();
            let (evicted, kept): (VecDeque<_>, VecDeque<_>) =
                mem::take(&mut *waiting).into_iter().partition(|recording| self.abandons(recording));
            *waiting = kept;
            evicted
        };
        evicted.into_iter().for_each(|recording| recording.job.goal.fail(&StoreError::Stopped));
    }

    /// Polls each recording once. Only one at a time is taken out.
    fn poll_recordings(&self) {
        let count = self.recordings.waiting.lock().len();
        for _ in 0..count {
            let Some(recording) = self.recordings.waiting.lock().pop_front() else { return };
            if let Some(recording) = self.poll(recording) {
                self.recordings.waiting.lock().push_back(recording);
            }
        }
    }

    /// Returns a recording if it still waits.
    fn poll(&self, mut recording: Recording) -> Option<Recording> {
        if self.stop.load(Relaxed) {
            recording.job.goal.fail(&StoreError::Stopped);
            return None;
        }
        let (now, is_linked) = match version(&recording.job.asset) {
            Ok(version) => version,
            Err(error) => {
                recording.job.goal.fail(&error);
                return None;
            }
        };
        let image = &recording.job.goal.image;
        let Some(packing) = &mut recording.job.begun else { return None };
        if now != recording.seen {
            image.note_behind();
            match packing.has_same_bytes(&recording.job.asset) {
                Ok(true) if now.size >= image.identity().size => {}
                Ok(_) => {
                    self.submit_again(self.end_early(recording.job));
                    return None;
                }
                Err(error) if recording.changed.elapsed() < image.quiet() => {
                    tracing::debug!(asset = image.name(), %error, "reading a recording failed; it is tried again");
                    return Some(recording);
                }
                Err(error) => {
                    recording.job.goal.fail(&error);
                    return None;
                }
            }
            (recording.seen, recording.changed) = (now, Instant::now());
        }
        let is_over = !is_linked || recording.changed.elapsed() >= image.quiet();
        if !self.open.lock().is_wanted(image, Instant::now()) {
            // It is packed on for the next client, if the file still grows then.
            recording.rests_since.get_or_insert_with(Instant::now);
            if is_over && self.abandons(&recording) {
                recording.job.goal.fail(&StoreError::Stopped);
                return None;
            }
            return Some(recording);
        }
        let has_rested = recording.rests_since.take().is_some();
        if now != image.identity() {
            match has_rested {
                true => packing.grow_after_rest(now.size),
                false => packing.grow(now.size),
            }
            image.note_version(now);
        } else if is_over {
            packing.end_growth();
        } else {
            return Some(recording);
        }
        recording.job.last_turn = Instant::now();
        self.submit_again(Some(recording.job));
        None
    }

    fn abandons(&self, recording: &Recording) -> bool {
        let goal = &recording.job.goal;
        self.open.lock().abandon(goal.key, &goal.image, Instant::now())
    }
}

/// Version of an open file, and whether it has a name.
fn version(asset: &File) -> Result<(Identity, bool), StoreError> {
    let stat = rustix::fs::fstat(asset).map_err(|errno| io_error("fstat of the asset", errno.into()))?;
    Ok((library::identity(&stat), stat.st_nlink > 0))
}
