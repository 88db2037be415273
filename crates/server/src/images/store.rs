//! Which images are open, and how they come to be: found in the cache, or packed.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use wirepath_media::image::{Header, Identity, Plan, Recipe, Table};
use wirepath_streams::datapath::Medium;
use wirepath_streams::{BlockingPool, Importance};

use super::cache::{Cache, CacheError, Draft};
use super::image::Image;
use super::packing;
use super::read::read_image;
use super::summary::Summary;
use crate::library;

/// Images that nobody plays are kept open up to this number, so that they need not be checked again.
const RESTING: usize = 32;

/// Transport stream packets in an RTP packet where the path's MTU allows: what every receiver of RFC 2250 expects.
pub const USUAL_TS_PER_PACKET: u16 = 7;

/// Opens images of assets. Calls may wait for storage: they belong on threads where that is allowed.
pub struct Store {
    this: Weak<Store>,
    cache: Cache,
    burst_us: u32,
    readers: BlockingPool,
    packers: BlockingPool,
    open: Mutex<Open>,
    counters: StoreCounters,
    stop: AtomicBool,
}

#[derive(Default)]
struct Open {
    images: HashMap<Key, Weak<Image>>,
    resting: VecDeque<Arc<Image>>,
}

/// What an image is found by: one version of a file has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: u64,
    inode: u64,
    recipe: Recipe,
}

/// What the store counted since it was made.
#[derive(Debug, Default)]
pub struct StoreCounters {
    /// Images packed to their end.
    pub packed: AtomicU64,
    /// Images whose packing failed.
    pub failed: AtomicU64,
    /// Images found in the cache and good.
    pub found: AtomicU64,
    /// Images or segments found damaged or stale, and packed again.
    pub rejected: AtomicU64,
}

/// An asset cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Its image cannot be kept.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A call on the asset or its image failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It is not a transport stream with a clock; the words say what it is not, and where.
    #[error("{0}")]
    NotPlayable(String),
    /// Too many assets are waiting to be packed.
    #[error("too many assets are waiting to be packed; try again later")]
    Busy,
    /// [`Store::stop_packing`] was called. Nobody is at fault.
    #[error("packing was stopped")]
    Stopped,
    /// The path is too narrow for even one transport stream packet.
    #[error("a path MTU of {0} bytes is too small for one transport stream packet")]
    Mtu(u32),
}

impl Store {
    /// A store over `cache` that packs with trains of at most `burst_us`, with `readers` to bring in what is played.
    ///
    /// # Errors
    /// What starting a thread says.
    pub fn new(cache: Cache, burst_us: u32, readers: BlockingPool, packers: usize) -> io::Result<Arc<Store>> {
        let packers = BlockingPool::start("packer", packers, Importance::Background)?;
        Ok(Arc::new_cyclic(|this| Store {
            this: this.clone(),
            cache,
            burst_us,
            readers,
            packers,
            open: Mutex::default(),
            counters: StoreCounters::default(),
            stop: AtomicBool::new(false),
        }))
    }

    /// The recipe for a path of `mtu` bytes with IP headers of `ip_header` bytes.
    ///
    /// # Errors
    /// [`StoreError::Mtu`].
    pub fn recipe(&self, mtu: u32, ip_header: u16) -> Result<Recipe, StoreError> {
        let capped = u16::try_from(mtu).unwrap_or(u16::MAX);
        let recipe = Recipe::for_mtu(capped, ip_header, self.burst_us).ok_or(StoreError::Mtu(mtu))?;
        Ok(Recipe { ts_per_packet: recipe.ts_per_packet.min(USUAL_TS_PER_PACKET), ..recipe })
    }

    /// The recipe where nothing is known of the path.
    pub fn usual_recipe(&self) -> Recipe {
        Recipe { ts_per_packet: USUAL_TS_PER_PACKET, burst_us: self.burst_us }
    }

    /// The image of `asset`, which people call `name`, by `recipe`: one that is open, one from the cache, or one that is being packed from now on.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn image(&self, asset: Arc<File>, name: &str, recipe: Recipe) -> Result<Arc<Image>, StoreError> {
        let identity =
            identity(&asset).map_err(|source| StoreError::Io { what: "looking at the asset", source })?;
        let key = Key::of(identity, recipe);
        let mut open = self.open();
        if let Some(image) = open.images.get(&key).and_then(Weak::upgrade)
            && image.plan().identity == identity
            && !image.has_failed()
        {
            open.rest(&image);
            return Ok(image);
        }
        let image = match self.cached(&asset, name, key, identity)? {
            Some(image) => image,
            None => self.pack(asset, name, key, identity)?,
        };
        open.images.retain(|_, image| image.strong_count() > 0);
        open.images.insert(key, Arc::downgrade(&image));
        open.rest(&image);
        Ok(image)
    }

    /// Where the finished image of this plan is.
    pub fn path_of(&self, plan: &Plan) -> PathBuf {
        self.cache.path_of(&Key::of(plan.identity, plan.recipe).name())
    }

    /// Ends packing, now and for good: images that are not complete fail, and nothing of them is left in the cache.
    pub fn stop_packing(&self) {
        self.stop.store(true, Relaxed);
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The images that are open.
    pub fn open_images(&self) -> Vec<Arc<Image>> {
        self.open().images.values().filter_map(Weak::upgrade).collect()
    }

    /// What it counted.
    pub fn counters(&self) -> &StoreCounters {
        &self.counters
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A good image from the cache, its segments not yet looked at.
    fn cached(
        &self,
        asset: &Arc<File>,
        name: &str,
        key: Key,
        identity: Identity,
    ) -> Result<Option<Arc<Image>>, StoreError> {
        let Some(file) = self.cache.find(&key.name())? else { return Ok(None) };
        match read_image(&file) {
            Ok((header, table)) if header.plan.identity == identity && header.plan.recipe == key.recipe => {
                let length = header.table.offset;
                let medium = Medium::new(file, length)
                    .map_err(|source| StoreError::Io { what: "mapping the wire image", source })?;
                let image = self.new_image(asset, name, key, header.plan, summary_of(&header, &table));
                image.begin(medium);
                image.grow(&table.segments, &table.starts, false);
                image.end(Ok(summary_of(&header, &table)));
                self.counters.found.fetch_add(1, Relaxed);
                Ok(Some(image))
            }
            Ok(_) => {
                tracing::info!(image = key.name(), "the asset changed; its image is packed again");
                self.counters.rejected.fetch_add(1, Relaxed);
                Ok(None)
            }
            Err(error) => {
                tracing::warn!(image = key.name(), %error, "a wire image is damaged; it is packed again");
                self.counters.rejected.fetch_add(1, Relaxed);
                self.cache.remove(&key.name())?;
                Ok(None)
            }
        }
    }

    /// An image that is being packed from now on.
    fn pack(
        &self,
        asset: Arc<File>,
        name: &str,
        key: Key,
        identity: Identity,
    ) -> Result<Arc<Image>, StoreError> {
        let random =
            |_| StoreError::Io { what: "asking for random numbers", source: io::ErrorKind::Other.into() };
        let plan = Plan {
            identity,
            recipe: key.recipe,
            ssrc: getrandom::u32().map_err(random)?,
            sequence: getrandom::u32().map_err(random)? as u16,
            timestamp: getrandom::u32().map_err(random)?,
        };
        let summary = packing::estimate(&asset, identity.size)?;
        let image = self.new_image(&asset, name, key, plan, summary);
        self.submit(asset, key, Arc::clone(&image))?;
        Ok(image)
    }

    fn new_image(&self, asset: &Arc<File>, name: &str, key: Key, plan: Plan, summary: Summary) -> Arc<Image> {
        let (store, asset) = (self.this.clone(), Arc::clone(asset));
        Image::new(name, plan, summary, self.readers.clone(), move |image| {
            let Some(store) = store.upgrade() else { return };
            store.repair(Arc::clone(&asset), key, image);
        })
    }

    /// Packs a damaged image again, by the same plan, so that its bytes become what they were: those who play from it go on.
    fn repair(&self, asset: Arc<File>, key: Key, image: Arc<Image>) {
        self.counters.rejected.fetch_add(1, Relaxed);
        let again = self
            .cache
            .remove(&key.name())
            .map_err(StoreError::from)
            .and_then(|()| self.submit(asset, key, Arc::clone(&image)));
        if let Err(error) = again {
            image.end(Err(format!("a damaged wire image cannot be packed again: {error}").into()));
        }
    }

    fn submit(&self, asset: Arc<File>, key: Key, image: Arc<Image>) -> Result<(), StoreError> {
        let store = self.this.clone();
        let submitted = self.packers.submit(move || {
            let Some(store) = store.upgrade() else { return };
            store.run_packing(&asset, key, &image);
        });
        if submitted { Ok(()) } else { Err(StoreError::Busy) }
    }

    fn run_packing(&self, asset: &File, key: Key, image: &Image) {
        let result = self
            .begin(&key.name(), image.plan())
            .and_then(|draft| packing::pack(asset, draft, image, &self.stop));
        match result {
            Ok(summary) => {
                self.counters.packed.fetch_add(1, Relaxed);
                image.end(Ok(summary));
            }
            Err(error) => {
                self.counters.failed.fetch_add(1, Relaxed);
                tracing::warn!(image = key.name(), %error, "an asset could not be packed");
                image.end(Err(error.to_string().into()));
            }
        }
    }

    /// Room for an image. Images that are only resting are let go of if that is what it takes.
    fn begin(&self, name: &str, plan: &Plan) -> Result<Draft, StoreError> {
        let length = packing::length_bound(plan);
        match self.cache.begin(name, length) {
            Err(CacheError::Budget { .. } | CacheError::DiskFull { .. }) => {
                let resting = std::mem::take(&mut self.open().resting);
                drop(resting); // outside the lock: files are closed
                Ok(self.cache.begin(name, length)?)
            }
            result => Ok(result?),
        }
    }
}

impl Open {
    /// Keeps an image open for a while, whether anybody plays it or not.
    fn rest(&mut self, image: &Arc<Image>) {
        self.resting.retain(|other| !Arc::ptr_eq(other, image));
        self.resting.push_back(Arc::clone(image));
        if self.resting.len() > RESTING {
            self.resting.pop_front();
        }
    }
}

impl Key {
    fn of(identity: Identity, recipe: Recipe) -> Key {
        Key { device: identity.device, inode: identity.inode, recipe }
    }

    /// Name in the cache.
    fn name(&self) -> String {
        let Recipe { ts_per_packet, burst_us } = self.recipe;
        format!("{:x}-{:x}-{ts_per_packet}x{burst_us}", self.device, self.inode)
    }
}

/// Which version of which file this is.
pub(super) fn identity(asset: &File) -> io::Result<Identity> {
    Ok(library::identity(&rustix::fs::fstat(asset)?))
}

fn summary_of(header: &Header, table: &Table) -> Summary {
    Summary {
        duration_us: Some(header.duration_us),
        payload_bytes: header.payload_bytes,
        description: table.description.clone(),
    }
}
