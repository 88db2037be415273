//! Recordings: fragmented MP4 files whose images grow with them.
//!
//! Packing continues where it was: its job leaves the queue when all that the recorder has written is packed, and
//! returns to the queue when the file has changed.

use std::fs::File;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wirepath_media::image::Identity;
use wirepath_media::pack::Packed;

use super::Store;
use super::job::Job;
use crate::images::error::{StoreError, io_error};
use crate::images::packing::quiet;
use crate::images::work_queue::Work;
use crate::library;

/// Interval of looking for growth. Network file systems do not notify of it.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Most recordings that are followed. Each holds some memory and a file.
const MOST_RECORDINGS: usize = 32;

/// Recordings that are packed as far as they are written.
#[derive(Default)]
pub(super) struct Recordings(Mutex<Followed>);

#[derive(Default)]
struct Followed {
    recordings: Vec<Recording>,
    /// True while a thread looks for their growth.
    has_thread: bool,
}

/// Recording whose packing waits for growth.
struct Recording {
    job: Job,
    packed: Packed,
    /// Version at the last look, and the time at which it was first seen.
    seen: Identity,
    changed: Instant,
    /// True once the packer knows of the growth or the end.
    is_due: bool,
}

impl Store {
    /// Packs a recording on when it has grown.
    pub(super) fn follow(&self, job: Job, packed: Packed) {
        job.goal.image.note_all_packed(job.goal.generation, packed);
        let seen = job.goal.image.identity();
        let recording = Recording { job, packed, seen, changed: Instant::now(), is_due: false };
        let most_bytes = self.options.packing_memory_bytes;
        let mut followed = self.recordings.0.lock();
        let held_bytes = followed.recordings.iter().map(|recording| recording.job.held_bytes()).sum::<u64>();
        let has_room = followed.recordings.len() < MOST_RECORDINGS
            && held_bytes + recording.job.held_bytes() <= most_bytes;
        if !has_room {
            drop(followed);
            if self.leave_recordings() == 0 {
                return recording.job.goal.fail(&StoreError::Busy);
            }
            followed = self.recordings.0.lock();
        }
        followed.recordings.push(recording);
        if std::mem::replace(&mut followed.has_thread, true) {
            return;
        }
        drop(followed);
        let store = self.this.clone();
        let look = move || {
            while let Some(store) = store.upgrade()
                && store.look_at_recordings()
            {
                drop(store);
                thread::sleep(LOOK_INTERVAL);
            }
        };
        if let Err(error) = thread::Builder::new().name("recordings".to_owned()).spawn(look) {
            let recordings = std::mem::take(&mut *self.recordings.0.lock()).recordings;
            let error = io_error("starting a thread for recordings", error);
            recordings.into_iter().for_each(|recording| recording.job.goal.fail(&error));
        }
    }

    /// Stops following recordings that nobody plays or asks for; returns their number.
    pub(super) fn leave_recordings(&self) -> usize {
        let recordings = std::mem::take(&mut self.recordings.0.lock().recordings);
        let (left, kept): (Vec<_>, Vec<_>) =
            recordings.into_iter().partition(|recording| self.abandons(recording));
        self.recordings.0.lock().recordings.extend(kept);
        let count = left.len();
        left.into_iter().for_each(|recording| recording.job.goal.fail(&StoreError::Stopped));
        count
    }

    /// Looks for growth; returns whether there are recordings.
    fn look_at_recordings(&self) -> bool {
        let recordings = std::mem::take(&mut self.recordings.0.lock().recordings);
        let kept: Vec<Recording> =
            recordings.into_iter().filter_map(|recording| self.look_at(recording)).collect();
        let mut followed = self.recordings.0.lock();
        followed.recordings.extend(kept);
        followed.has_thread = !followed.recordings.is_empty();
        followed.has_thread
    }

    /// Returns a recording if it still waits.
    fn look_at(&self, mut recording: Recording) -> Option<Recording> {
        if self.stop.load(Relaxed) {
            recording.job.goal.fail(&StoreError::Stopped);
            return None;
        }
        if recording.is_due {
            return self.resume(recording);
        }
        let (now, is_linked) = match version(&recording.job.asset) {
            Ok(version) => version,
            Err(error) => {
                recording.job.goal.fail(&error);
                return None;
            }
        };
        if now != recording.seen {
            (recording.seen, recording.changed) = (now, Instant::now());
        }
        let (image, known) = (&recording.job.goal.image, recording.job.goal.image.identity());
        let is_over =
            !is_linked || recording.changed.elapsed() >= quiet(recording.packed.fragments.longest_us);
        if !self.open.lock().is_wanted(image, Instant::now()) {
            // It is packed on for the next client, if the file still grows then.
            if is_over && self.abandons(&recording) {
                recording.job.goal.fail(&StoreError::Stopped);
                return None;
            }
            return Some(recording);
        }
        let Some(packing) = &mut recording.job.begun else { return None };
        let is_same = now.size >= known.size
            && (now == known || packing.has_same_fragments(&recording.job.asset).unwrap_or(false));
        if !is_same {
            self.submit_again(self.end_early(recording.job));
            return None;
        }
        if now != known {
            packing.grow(now.size);
            image.note_version(now);
        } else if is_over {
            packing.end_growth();
        } else {
            return Some(recording);
        }
        recording.is_due = true;
        self.resume(recording)
    }

    /// Queues a recording's packing; returns the recording if the queue is full.
    fn resume(&self, mut recording: Recording) -> Option<Recording> {
        recording.job.last_turn = Instant::now();
        match self.packers.submit(recording.job) {
            Ok(()) => None,
            Err(job) => Some(Recording { job, ..recording }),
        }
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
