//! Packing assets in turns: what a packer does with one.

use std::fs::File;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::{Store, StoreError};
use crate::images::cache::is_full;
use crate::images::image::Image;
use crate::images::open::Key;
use crate::images::packing::{self, Packed, Packing, Step};
use crate::images::summary::Summary;
use crate::images::work_queue::{Turn, Work};

/// An asset on its way into an image.
pub(super) struct Job {
    store: Weak<Store>,
    asset: Arc<File>,
    key: Key,
    image: Arc<Image>,
    generation: u32,
    begun: Option<Box<Packing>>,
}

impl Job {
    /// The same work, nothing of which has begun.
    fn again(&self) -> Job {
        let (asset, image) = (Arc::clone(&self.asset), Arc::clone(&self.image));
        Job {
            store: self.store.clone(),
            asset,
            key: self.key,
            image,
            generation: self.generation,
            begun: None,
        }
    }
}

impl Work for Job {
    fn turn(&mut self) -> Turn {
        self.store.upgrade().map_or(Turn::Done, |store| store.pack_on(self))
    }
}

impl Store {
    /// Has a generation of an image packed, unless whoever packs an older one goes on with it.
    pub(super) fn submit(&self, asset: Arc<File>, key: Key, image: Arc<Image>) -> Result<(), StoreError> {
        let generation = image.generation();
        if !image.want_packed(generation) {
            return Ok(());
        }
        let (store, begun) = (self.this.clone(), None);
        let job = Job { store, asset, key, image: Arc::clone(&image), generation, begun };
        if self.packers.submit(job) {
            return Ok(());
        }
        let wanted = image.packing_over(generation);
        debug_assert!(wanted.is_none(), "there is nothing in it yet that could be damaged");
        Err(StoreError::Busy)
    }

    /// Packs some of an asset.
    fn pack_on(&self, job: &mut Job) -> Turn {
        let stop =
            || self.stop.load(Relaxed) || self.open.lock().abandon(job.key, &job.image, Instant::now());
        let step = match job.begun.take() {
            Some(begun) => Ok(begun),
            None if stop() => Err(StoreError::Stopped),
            None => self
                .begin(&job.key.name(), job.image.plan())
                .and_then(|draft| Packing::begin(draft, &job.image, job.generation)),
        }
        .and_then(|begun| begun.turn(&job.asset, &job.image, job.generation, stop));
        match step {
            Ok(Step::More(begun)) => {
                job.begun = Some(begun);
                Turn::More
            }
            Ok(Step::Packed(packed)) => {
                self.publish(job.again(), packed);
                Turn::Done
            }
            Err(error) => self.conclude(job, Err(error)),
        }
    }

    fn publish(&self, mut job: Job, packed: Box<Packed>) {
        let publish = move || {
            let Some(store) = job.store.upgrade() else { return };
            let result = packed.publish();
            if store.conclude(&mut job, result) == Turn::More {
                let (key, image, generation) = (job.key, Arc::clone(&job.image), job.generation);
                if !store.packers.submit(job) {
                    store.fail(key, &image, generation, StoreError::Busy);
                }
            }
        };
        // Fewer are packed at a time than may wait there.
        let submitted = self.publisher.submit(publish);
        debug_assert!(submitted, "there is room");
    }

    /// A generation of an image is packed, or cannot be.
    fn conclude(&self, job: &mut Job, result: Result<Summary, StoreError>) -> Turn {
        match result {
            Ok(summary) => {
                self.counters.packed.increment();
                job.image.end(job.generation, Ok(summary));
            }
            Err(StoreError::Io { source, .. }) if is_full(&source) => {
                let error = self.cache.disk_full(packing::length_bound(job.image.plan()));
                self.fail(job.key, &job.image, job.generation, error.into());
            }
            Err(error) => self.fail(job.key, &job.image, job.generation, error),
        }
        match job.image.packing_over(job.generation) {
            Some(generation) => {
                job.generation = generation;
                Turn::More
            }
            None => Turn::Done,
        }
    }
}
