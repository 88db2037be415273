//! Which images are open, and how they come to be: found in the cache, or packed.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wirepath_counters::{Counter, Gauge, counters};
use wirepath_datapath::MappedFile;
use wirepath_engine::{BlockingPool, DropOnPool, Priority};
use wirepath_media::image::{Header, Identity, Plan, Recipe, Table};

use super::cache::{Cache, CacheError, Draft};
use super::image::{Damage, Failure, Image};
use super::open::{IDLE_TTL, Key, Open};
use super::packing;
use super::read::read_image;
use super::summary::Summary;
use super::work_queue::WorkQueue;
use crate::library;

mod job;

use job::Job;

/// An image is packed again this often because of damage; then something else than the file is at fault.
const REPAIRS: u32 = 2;

/// Transport stream packets in an RTP packet where the path's MTU allows: what every receiver of RFC 2250
/// expects.
pub const USUAL_TS_PER_PACKET: u16 = 7;

/// Opens images of assets. Calls may wait for storage: they belong on threads where that is allowed.
pub struct Store {
    this: Weak<Store>,
    cache: Cache,
    burst_us: u32,
    readers: BlockingPool,
    packers: WorkQueue<Job>,
    /// Has what was packed reach the disk, which may take seconds that no packer has.
    publisher: BlockingPool,
    open: Mutex<Open>,
    counters: StoreCounters,
    stop: AtomicBool,
    /// Dropped with the store, which ends its timer.
    _alive: Sender<()>,
}

counters! {
    /// Counters of an image store.
    pub struct StoreCounters;
    /// Snapshot of the counters of an image store.
    pub struct StoreCounts;

    /// Wire images packed completely.
    packed: Counter,
    /// Assets that could not be packed.
    failed: Counter,
    /// Wire images found in the cache and used.
    found: Counter,
    /// Wire images found damaged or stale, and packed again.
    rejected: Counter,
    /// Wire images that are open.
    open: Gauge,
    /// Room that wire images take, unfinished ones with what is reserved for them.
    cache_used_bytes: Gauge,
    /// Room that wire images may take.
    cache_budget_bytes: Gauge,
}

/// An asset cannot be played.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Its image cannot be kept.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A call on the asset or its image failed.
    #[error("{what}: {source}")]
    Io {
        /// The call.
        what: &'static str,
        /// Error of the system.
        source: Arc<io::Error>,
    },
    /// It is not a transport stream with a clock; the words say what it is not, and where.
    #[error("{0}")]
    NotPlayable(String),
    /// Too many assets are waiting to be packed.
    #[error("too many assets are waiting to be packed; try again later")]
    Busy,
    /// [`Store::stop_packing`] was called, or nobody needs the image any more. Nobody is at fault.
    #[error("packing was stopped")]
    Stopped,
    /// The path is too narrow for even one transport stream packet.
    #[error("a path MTU of {0} bytes is too small for one transport stream packet")]
    Mtu(u32),
}

impl StoreError {
    /// Text for clients: names no folder of this machine.
    pub fn public(&self) -> String {
        match self {
            StoreError::Cache(CacheError::Budget { .. } | CacheError::DiskFull { .. }) => {
                "there is no room for its wire image; the server's log says more".to_owned()
            }
            StoreError::Cache(CacheError::Folder { .. }) | StoreError::Io { .. } => {
                "it or its wire image cannot be read or written; the server's log says more".to_owned()
            }
            StoreError::NotPlayable(_) | StoreError::Busy | StoreError::Stopped | StoreError::Mtu(_) => {
                self.to_string()
            }
        }
    }
}

impl Store {
    /// A store over `cache` that packs with trains of at most `burst_us`, with `readers` to bring in what is
    /// played.
    ///
    /// # Errors
    /// An error of starting a thread.
    pub fn new(cache: Cache, burst_us: u32, readers: BlockingPool, packers: usize) -> io::Result<Arc<Store>> {
        Store::with_rest(cache, burst_us, readers, packers, IDLE_TTL)
    }

    /// As `new`; images rest for `rest`.
    pub(super) fn with_rest(
        cache: Cache,
        burst_us: u32,
        readers: BlockingPool,
        packers: usize,
        rest: Duration,
    ) -> io::Result<Arc<Store>> {
        let packers = WorkQueue::start("packer", packers)?;
        let publisher = BlockingPool::start("publisher", 1, Priority::Background)?;
        let (alive, ended) = channel();
        let store = Arc::new_cyclic(|this| Store {
            this: this.clone(),
            cache,
            burst_us,
            readers,
            packers,
            publisher,
            open: Mutex::new(Open::new(rest)),
            counters: StoreCounters::default(),
            stop: AtomicBool::new(false),
            _alive: alive,
        });
        let timed = Arc::downgrade(&store);
        thread::Builder::new().name("resting".to_owned()).spawn(move || let_go_in_time(&timed, &ended))?;
        Ok(store)
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

    /// The image of `asset`, which people call `name`, by `recipe`: one that is open, one from the cache, or
    /// one that is being packed from now on. What could not be packed a few seconds ago is not tried again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn image(&self, asset: Arc<File>, name: &str, recipe: Recipe) -> Result<Arc<Image>, StoreError> {
        let identity = identity(&asset).map_err(|source| io_error("looking at the asset", source))?;
        let key = Key::of(identity, recipe);
        let door = self.open.lock().door(key);
        let _alone = door.lock();
        let known = self.open.lock().find(key, identity, Instant::now());
        let image = match known {
            Some(known) => known?,
            None => self.open_image(asset, name, key, identity)?,
        };
        let gone = self.open.lock().rest(key, &image, Instant::now());
        drop(gone); // outside the lock
        Ok(image)
    }

    fn open_image(
        &self,
        asset: Arc<File>,
        name: &str,
        key: Key,
        identity: Identity,
    ) -> Result<Arc<Image>, StoreError> {
        let image = match self.cached(&asset, name, key, identity)? {
            Some(image) => image,
            None => self.pack(asset, name, key, identity)?,
        };
        self.open.lock().insert(key, &image);
        Ok(image)
    }

    /// Path of the finished image of this plan.
    pub fn path_of(&self, plan: &Plan) -> PathBuf {
        self.cache.path_of(&Key::of(plan.identity, plan.recipe).name())
    }

    /// Ends packing, now and for good: images that are not complete fail, and nothing of them is left in the
    /// cache.
    pub fn stop_packing(&self) {
        self.stop.store(true, Relaxed);
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The images that are open. Never waits for storage.
    pub fn open_images(&self) -> Vec<Arc<Image>> {
        self.let_go();
        self.open.lock().images()
    }

    /// Number of open images. Never waits for storage.
    pub fn open_count(&self) -> usize {
        self.let_go();
        self.open.lock().count()
    }

    /// Counters, and the room that images take now. Never waits for storage.
    pub fn counts(&self) -> StoreCounts {
        self.counters.open.set(self.open_count() as u64);
        self.counters.cache_used_bytes.set(self.cache.used());
        self.counters.cache_budget_bytes.set(self.cache.budget());
        self.counters.snapshot()
    }

    /// Has what rested long enough closed elsewhere.
    fn let_go(&self) {
        let gone = self.open.lock().let_go(Instant::now());
        if !gone.is_empty() {
            self.readers.discard(gone);
        }
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
        let path = self.cache.path_of(&key.name());
        match read_image(&file) {
            Ok((header, table)) if header.plan.identity == identity && header.plan.recipe == key.recipe => {
                let medium = MappedFile::new(file, header.table.offset)
                    .map_err(|source| io_error("mapping the wire image", source))?;
                let image = self.new_image(asset, name, key, header.plan, summary_of(&header, &table));
                image.begin(0, medium);
                image.grow(0, &table.segments, &table.starts, false);
                image.end(0, Ok(summary_of(&header, &table)));
                self.counters.found.increment();
                Ok(Some(image))
            }
            Ok(_) => {
                tracing::info!(asset = name, image = %path.display(), "the asset changed; its image is packed again");
                self.counters.rejected.increment();
                Ok(None)
            }
            Err(error) if error.is_damage() => {
                tracing::warn!(asset = name, image = %path.display(), %error,
                    "a wire image is damaged; it is packed again");
                self.counters.rejected.increment();
                self.cache.remove(&key.name(), &file)?;
                Ok(None)
            }
            Err(error) => Err(io_error("reading the wire image", io::Error::other(error))),
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
        let random = |error: getrandom::Error| io_error("asking for random numbers", io::Error::other(error));
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
        let (store, asset) = (self.this.clone(), DropOnPool::new(Arc::clone(asset), &self.readers));
        let path = self.cache.path_of(&key.name());
        Image::new(name, path, plan, summary, self.readers.clone(), move |image, damage| {
            let Some(store) = store.upgrade() else { return };
            let generation = damage.generation;
            if let Err(error) = store.repair(Arc::clone(&asset), key, &image, damage) {
                store.fail(key, &image, generation, error);
            }
        })
    }

    /// Packs a damaged image again, by the same plan, so that its bytes become what they were: those who play
    /// from it go on.
    fn repair(
        &self,
        asset: Arc<File>,
        key: Key,
        image: &Arc<Image>,
        damage: Damage,
    ) -> Result<(), StoreError> {
        self.counters.rejected.increment();
        tracing::warn!(asset = image.name(), image = %image.path().display(), error = damage.error,
            "a wire image is damaged");
        self.cache.remove(&key.name(), damage.medium.file())?;
        drop(damage.medium); // the room is needed
        if damage.generation > REPAIRS {
            let reason = format!(
                "it was packed again {REPAIRS} times and is damaged again ({}); check the disk of the cache folder",
                damage.error
            );
            return Err(io_error("reading the wire image", io::Error::other(reason)));
        }
        if identity(&asset).map_err(|source| io_error("looking at the asset", source))?
            != image.plan().identity
        {
            let reason = "the wire image is damaged, and the asset is not what it was packed from".to_owned();
            return Err(StoreError::NotPlayable(reason));
        }
        self.submit(asset, key, Arc::clone(image))
    }

    /// Ends an image that cannot be had, unless it has started over meanwhile.
    fn fail(&self, key: Key, image: &Image, generation: u32, error: StoreError) {
        if image.generation() != generation {
            return;
        }
        let (asset, path) = (image.name(), image.path().display());
        let failure = Failure { reason: error.to_string().into(), public: error.public().into() };
        if let StoreError::Stopped = error {
            tracing::info!(asset, image = %path, "packing was stopped");
        } else {
            self.counters.failed.increment();
            tracing::warn!(asset, image = %path, %error, "an asset could not be packed");
            self.open.lock().fail(key, image, error, Instant::now());
        }
        image.end(generation, Err(failure));
    }

    /// Room for an image. Images that are only resting are let go of if that is what it takes.
    fn begin(&self, name: &str, plan: &Plan) -> Result<Draft, StoreError> {
        let length = packing::length_bound(plan);
        match self.cache.begin(name, length) {
            Err(CacheError::Budget { .. } | CacheError::DiskFull { .. }) => {
                let resting = self.open.lock().let_all_go();
                drop(resting); // outside the lock
                self.readers.wait_for_discarded();
                Ok(self.cache.begin(name, length)?)
            }
            result => Ok(result?),
        }
    }
}

/// Lets go of images when their rest is over, though nobody asks for anything, until the store has ended.
fn let_go_in_time(store: &Weak<Store>, ended: &Receiver<()>) {
    while let Some(there) = store.upgrade() {
        there.let_go();
        let next = there.open.lock().next_over(Instant::now());
        drop(there);
        if ended.recv_timeout(next) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// Which version of which file this is.
pub(super) fn identity(asset: &File) -> io::Result<Identity> {
    Ok(library::identity(&rustix::fs::fstat(asset)?))
}

pub(super) fn io_error(what: &'static str, source: io::Error) -> StoreError {
    StoreError::Io { what, source: source.into() }
}

fn summary_of(header: &Header, table: &Table) -> Summary {
    Summary {
        duration_us: Some(header.duration_us),
        payload_bytes: header.payload_bytes,
        description: table.description.clone(),
    }
}
