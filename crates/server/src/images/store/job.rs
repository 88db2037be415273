//! Packing assets in turns: the work of a packer.

use std::fs::File;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Instant;

use wirepath_media::image::{self, Layout};
use wirepath_net::Permit;

use super::Store;
use crate::images::error::StoreError;
use crate::images::image::Image;
use crate::images::image_folder::Draft;
use crate::images::key::Key;
use crate::images::packing::{self, Packing, PackingStore};
use crate::images::summary::Summary;
use crate::images::work_queue::{Due, Work};

/// An asset on its way into an image.
pub(super) struct Job {
    store: Weak<Store>,
    asset: Arc<File>,
    key: Key,
    image: Arc<Image>,
    generation: u32,
    layout: Layout,
    /// Place among the packings of the client that asked for it.
    _permit: Option<Permit>,
    begun: Option<Box<Packing>>,
    /// End of the last turn; before the first, the time of the request.
    last_turn: Instant,
}

impl Work for Job {
    fn turn(self) -> Option<Job> {
        self.store.upgrade()?.pack_on(self)
    }

    fn due(&self) -> Due {
        self.image.packing_due(self.last_turn, Instant::now())
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
}

impl PackingStore for Turn<'_> {
    fn stops(&self) -> bool {
        let Turn { store, key, image } = *self;
        store.stop.load(Relaxed) || store.open.lock().abandon(key, image, Instant::now())
    }

    fn extend(&self, draft: &mut Draft, length: u64) -> Result<(), StoreError> {
        self.store.with_room(|| self.store.folder.extend(draft, length))
    }
}

impl Store {
    /// Has a generation of an image packed, unless the packer of an older one goes on with it.
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
        let (store, last_turn) = (self.this.clone(), Instant::now());
        let job =
            Job { store, asset, key, image, generation, layout, _permit: permit, begun: None, last_turn };
        self.packers.submit(job).map_err(|job| {
            let wanted = job.image.packing_over(generation);
            debug_assert!(wanted.is_none(), "there is nothing in it yet that could be damaged");
            StoreError::Busy
        })
    }

    /// Packs some of an asset; returns the job if there is more to do.
    fn pack_on(&self, mut job: Job) -> Option<Job> {
        let begun = job.begun.take();
        let turn = Turn { store: self, key: job.key, image: &job.image };
        let packing = match begun {
            Some(packing) => Ok(packing),
            None if turn.stops() => Err(StoreError::Stopped),
            None => self
                .begin(job.key, job.layout, job.image.plan())
                .and_then(|draft| Packing::begin(draft, job.layout, &job.asset, &job.image, job.generation)),
        };
        let packed = packing.and_then(|mut packing| {
            let summary = packing.turn(&job.asset, &job.image, job.generation, &turn)?;
            Ok((packing, summary))
        });
        match packed {
            Ok((packing, None)) => Some(Job { begun: Some(packing), last_turn: Instant::now(), ..job }),
            Ok((packing, Some(summary))) => {
                self.publish(job, packing.into_draft(), summary);
                None
            }
            Err(error) => self.conclude(job, Err(error)),
        }
    }

    fn publish(&self, job: Job, draft: Draft, summary: image::Summary) {
        let publish = move || {
            let Some(store) = job.store.upgrade() else { return };
            let next = store.conclude(job, packing::publish(draft, summary));
            if let Some(Err(job)) = next.map(|job| store.packers.submit(job)) {
                store.fail(job.key, &job.image, job.generation, StoreError::Busy);
            }
        };
        // Without room there, the packer does it.
        if let Err(publish) = self.publisher.offer(Box::new(publish)) {
            publish();
        }
    }

    /// Ends the packing of a generation; returns the job of the next one, if another is wanted by now.
    fn conclude(&self, job: Job, result: Result<Summary, StoreError>) -> Option<Job> {
        match result {
            Ok(summary) => {
                match job.layout {
                    Layout::Image => self.counters.packed.increment(),
                    Layout::Index => self.counters.indexed.increment(),
                }
                job.image.end(job.generation, Ok(summary));
            }
            Err(error) => {
                let plan = job.image.plan();
                let needed = match job.layout {
                    Layout::Image => packing::length_bound(plan),
                    Layout::Index => packing::index_length_bound(plan),
                };
                self.fail(job.key, &job.image, job.generation, self.name_full_disk(error, needed));
            }
        }
        let generation = job.image.packing_over(job.generation)?;
        Some(Job { generation, _permit: None, ..job })
    }
}
