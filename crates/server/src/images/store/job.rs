//! Packing assets in turns: the work of a packer.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use wirepath_media::image::{self, Layout};
use wirepath_net::Permit;

use super::Store;
use super::places::Place;
use crate::images::error::{StoreError, identity};
use crate::images::image::Image;
use crate::images::image_folder::Draft;
use crate::images::key::Key;
use crate::images::packing::{self, Packing, PackingStore, Turned};
use crate::images::summary::Summary;
use crate::images::work_queue::{Due, Work};

mod goal;

use goal::Goal;

/// Time after a request for an asset from which its first turn counts as needed. A session is about to wait
/// for it, after sessions that already wait.
const FIRST_TURN: Duration = Duration::from_millis(500);

/// An asset that is being packed.
pub(super) struct Job {
    pub(super) goal: Goal,
    pub(super) asset: Arc<File>,
    layout: Layout,
    /// Its permit among the packings of the client that requested it.
    _permit: Option<Permit>,
    pub(super) begun: Option<Box<Packing>>,
    /// End of the last turn; before the first, the time of the request.
    pub(super) last_turn: Instant,
    /// Its place among the recordings that are followed.
    pub(super) place: Option<Place>,
}

impl Job {
    /// Returns whether the asset is a recording that was truncated.
    fn is_cut(&self) -> bool {
        let image = &self.goal.image;
        image.is_recorded() && identity(&self.asset).is_ok_and(|now| now.size < image.identity().size)
    }
}

impl Work for Job {
    fn turn(self) -> Option<Job> {
        self.goal.store.upgrade()?.pack_on(self)
    }

    fn due(&self) -> Due {
        match self.goal.image.packing_due(self.last_turn, Instant::now()) {
            Due::Nobody(_) if self.begun.is_none() => Due::Playback(self.last_turn + FIRST_TURN),
            due => due,
        }
    }

    fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    fn held_bytes(&self) -> u64 {
        self.begun.as_ref().map_or(0, |packing| packing.held_bytes())
    }
}

/// A turn of packing an image.
struct Turn<'a> {
    store: &'a Store,
    key: Key,
    image: &'a Arc<Image>,
    /// True for a recording that was packed as far as it was written before.
    is_followed: bool,
}

impl PackingStore for Turn<'_> {
    fn stops(&self) -> bool {
        let Turn { store, key, image, is_followed } = *self;
        // A recording that was packed as far as it was written is packed on: the next client would begin it anew.
        store.stop.load(Relaxed) || !is_followed && store.open.lock().abandon(key, image, Instant::now())
    }

    fn extend(&self, draft: &mut Draft, length: u64) -> Result<(), StoreError> {
        self.store.with_room(|| self.store.folder.extend(draft, length))
    }
}

impl Store {
    /// Starts packing a generation of an image, unless the packer of an older one continues with it.
    pub(super) fn submit(
        &self,
        asset: Arc<File>,
        key: Key,
        image: Arc<Image>,
        layout: Layout,
        permit: Option<Permit>,
    ) -> Result<(), StoreError> {
        let generation = image.generation();
        if !image.want_packed(generation) {
            return Ok(());
        }
        image.signal_urgency(self.packers.urgency_signal());
        let goal = Goal::new(self.this.clone(), key, image, generation);
        let job =
            Job { goal, asset, layout, _permit: permit, begun: None, last_turn: Instant::now(), place: None };
        self.packers.submit(job).map_err(|job| {
            let wanted = job.goal.over();
            debug_assert!(wanted.is_none(), "there is nothing in it yet that could be damaged");
            StoreError::Busy
        })
    }

    /// Packs part of an asset; returns the job if there is more to do.
    fn pack_on(&self, mut job: Job) -> Option<Job> {
        let begun = job.begun.take();
        let Goal { key, ref image, generation, .. } = job.goal;
        let turn = Turn { store: self, key, image, is_followed: job.place.is_some() };
        let packing = match begun {
            Some(packing) => Ok(packing),
            None if turn.stops() => Err(StoreError::Stopped),
            None => self.begin(key, job.layout, image.plan()).and_then(|draft| {
                let budget = self.folder.budget();
                Packing::begin(draft, job.layout, &job.asset, image, generation, budget)
            }),
        };
        let packed = packing.and_then(|mut packing| {
            let turned = packing.turn(&job.asset, image, generation, &turn)?;
            Ok((packing, turned))
        });
        match packed {
            Ok((packing, Turned::More)) => {
                Some(Job { begun: Some(packing), last_turn: Instant::now(), ..job })
            }
            Ok((packing, Turned::AllRecorded(packed))) => {
                self.follow(Job { begun: Some(packing), _permit: None, ..job }, packed);
                None
            }
            Ok((packing, Turned::Complete(summary))) => {
                self.publish(job, packing.into_draft(), summary);
                None
            }
            Ok((_, Turned::Outdated(summary))) => {
                self.conclude(job, Ok(Summary::of(&summary.header, summary.table.description)))
            }
            Err(_) if job.is_cut() => self.end_early(job),
            Err(error) => self.conclude(job, Err(error)),
        }
    }

    /// Queues the next generation of an image.
    pub(super) fn submit_again(&self, next: Option<Job>) {
        let Some(job) = next else { return };
        if let Err(job) = self.packers.submit(job) {
            job.goal.fail(&StoreError::Busy);
        }
    }

    /// Ends the image of a recording that was truncated or written anew with what was packed. It is not
    /// published.
    pub(super) fn end_early(&self, job: Job) -> Option<Job> {
        let image = &job.goal.image;
        tracing::info!(asset = image.name(), "a recording was truncated or written anew: its sessions end");
        let summary = Summary { duration_us: Some(image.last_departure_us()), ..image.summary() };
        self.conclude(job, Ok(summary))
    }

    fn publish(&self, job: Job, draft: Draft, summary: image::Summary) {
        let publish = move || {
            let Some(store) = job.goal.store.upgrade() else { return };
            store.submit_again(store.conclude(job, packing::publish(draft, summary)));
        };
        // If the readers' queue is full, the packer does it.
        if let Err(publish) = self.publisher.offer(Box::new(publish)) {
            publish();
        }
    }

    /// Ends the packing of a generation; returns the job of the next one, if another one was requested
    /// meanwhile.
    fn conclude(&self, job: Job, result: Result<Summary, StoreError>) -> Option<Job> {
        match result {
            Ok(summary) => {
                match job.layout {
                    Layout::Image => self.counters.packed.increment(),
                    Layout::Index => self.counters.indexed.increment(),
                }
                self.open.lock().note_packed(job.goal.key);
                summary.warn(job.goal.image.name(), job.goal.image.summary().warnings());
                job.goal.image.end(job.goal.generation, Ok(summary));
            }
            Err(error) => {
                let plan = job.goal.image.plan();
                let needed = match job.layout {
                    Layout::Image => packing::first_length(plan),
                    Layout::Index => packing::index_length_bound(plan),
                };
                let error = self.name_full_disk(error, needed);
                self.fail(job.goal.key, &job.goal.image, job.goal.generation, error);
            }
        }
        Some(Job { goal: job.goal.over()?, _permit: None, begun: None, ..job })
    }
}

#[cfg(test)]
mod tests;
