//! Opens images of assets: from the image folder, or by packing.

use std::fs::File;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wirepath_counters::{Counter, Gauge, counters};
use wirepath_datapath::{path_mtu, read_only_as_told};
use wirepath_engine::{BlockingPool, DropOnPool, Priority};
use wirepath_media::image::{Description, Header, Identity, Layout, PathLimits, Plan, Table, USUAL_BURST_US};
use wirepath_net::{ClientLimits, Permit};

use super::error::{LimitsError, StoreError, identity, io_error};
use super::follow::Follow;
use super::image::{Damage, Image};
use super::image_folder::{Draft, FolderError, ImageFolder, is_full};
use super::key::Key;
use super::memory_budget::MemoryBudget;
use super::open::OpenImages;
use super::packing::{self, Examined};
use super::page_memory::{PageCounts, PageMemory, Readers};
use super::popularity::Popularity;
use super::progress::Progress;
use super::read::{read_header, read_image};
use super::segment::Files;
use super::summary::Summary;
use super::work_queue::{UrgentThread, WorkQueue};
use crate::played_as::PlayedAs;

mod job;
mod making;
mod options;
mod places;
mod recordings;

use job::Job;
use making::Making;
pub use options::{ImagePolicy, StoreOptions, usual_packing_memory};
use recordings::Recordings;

/// Most times that an image is packed again because of damage; beyond that, the file is not the cause.
const REPAIRS: u32 = 2;

/// Interval of storing the popularity of assets: a killed process loses at most this much of it.
const KEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Part of the packing memory that estimates may take: one over this.
const ESTIMATE_SHARE: u64 = 4;

/// Largest payload of an RTP packet in bytes: it fits Ethernet with IPv6 headers, and holds seven transport
/// stream packets, which every receiver of RFC 2250 expects.
const USUAL_PAYLOAD: u16 = 1440;

/// Packet limits if nothing is known of the path.
pub const USUAL_LIMITS: PathLimits = PathLimits { payload: USUAL_PAYLOAD, burst_us: USUAL_BURST_US };

/// Opens images of assets. Calls may wait for storage: use them on threads that may block.
pub struct Store {
    this: Weak<Store>,
    folder: ImageFolder,
    options: StoreOptions,
    packers: WorkQueue<Job>,
    /// Packings that clients asked for.
    packings: Arc<ClientLimits>,
    /// Memory of estimates.
    estimates: MemoryBudget,
    /// Writes packed images to the disk, which may take seconds.
    publisher: BlockingPool,
    open: Mutex<OpenImages>,
    counters: StoreCounters,
    popularity: Popularity,
    making: Making,
    recordings: Recordings,
    page_memory: Arc<PageMemory>,
    stop: AtomicBool,
    /// Dropped with the store, which ends the thread that closes expired idle images.
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
    /// Indexes of assets made completely.
    indexed: Counter,
    /// Wire images found in the cache and used.
    found: Counter,
    /// Indexes found in the cache and used.
    indexes_found: Counter,
    /// Wire images and indexes found damaged or stale.
    rejected: Counter,
    /// Wire images and indexes that are open.
    open: Gauge,
    /// Space that wire images take, including space reserved for unfinished ones.
    cache_used_bytes: Gauge,
    /// Maximum space for wire images.
    cache_budget_bytes: Gauge,
    /// Packings of images and indexes that wait or run.
    packings: Gauge,
    /// Packings refused because the client's address had the maximum number.
    packings_refused: Counter,
    /// Memory that packings hold between their turns.
    packing_memory_bytes: Gauge,
    /// Memory that packings may hold before others wait.
    packing_memory_budget_bytes: Gauge,
}

impl Store {
    /// A store over `folder` that packs an image of each requested asset. `readers` read the segments that
    /// are played.
    pub fn new(folder: ImageFolder, readers: BlockingPool, packers: usize) -> io::Result<Arc<Store>> {
        Store::start(folder, StoreOptions::new(readers, packers))
    }

    /// A store over `folder`.
    pub fn start(folder: ImageFolder, options: StoreOptions) -> io::Result<Arc<Store>> {
        let estimate_bytes = options.packing_memory_bytes / ESTIMATE_SHARE;
        let packing_bytes = options.packing_memory_bytes - estimate_bytes;
        // Nobody waits when images are packed ahead of time.
        let urgent_thread = match options.images {
            ImagePolicy::AtOnce => UrgentThread::None,
            _ => UrgentThread::One,
        };
        let packers = WorkQueue::start("packer", options.packers, urgent_thread, packing_bytes)?;
        let publisher = BlockingPool::start("publisher", 1, Priority::Background)?;
        let (alive, ended) = channel();
        let (recordings, signals) = Recordings::new();
        let makes_images = matches!(options.images, ImagePolicy::Auto | ImagePolicy::All);
        let store = Arc::new_cyclic(|this| Store {
            this: this.clone(),
            popularity: match options.keeps_popularity {
                true => Popularity::load(folder.path(), Arc::clone(&options.plays)),
                false => Popularity::not_kept(Arc::clone(&options.plays)),
            },
            folder,
            packers,
            packings: ClientLimits::new(usize::MAX, options.packings_per_address),
            estimates: MemoryBudget::new(estimate_bytes),
            publisher,
            page_memory: PageMemory::new(options.page_bytes),
            open: Mutex::new(OpenImages::new(options.idle_ttl)),
            options,
            counters: StoreCounters::default(),
            making: Making::default(),
            recordings,
            stop: AtomicBool::new(false),
            _alive: alive,
        });
        let expiring = Arc::downgrade(&store);
        thread::Builder::new().name("expiry".to_owned()).spawn(move || run_expiry(&expiring, &ended))?;
        recordings::start(&store, signals)?;
        if makes_images {
            making::start(&store)?;
        }
        Ok(store)
    }

    /// The packet limits of a path of `mtu` bytes with IP headers of `ip_header` bytes.
    pub fn limits(&self, mtu: u32, ip_header: u16) -> Result<PathLimits, StoreError> {
        let capped = u16::try_from(mtu).unwrap_or(u16::MAX);
        let limits = PathLimits::for_mtu(capped, ip_header, USUAL_BURST_US).ok_or(StoreError::Mtu(mtu))?;
        Ok(PathLimits { payload: limits.payload.min(USUAL_PAYLOAD), ..limits })
    }

    /// The packet limits of the path of a connected socket, for packets with a trailer of so many bytes.
    pub(crate) fn limits_of(&self, socket: &UdpSocket, trailer: u32) -> Result<PathLimits, LimitsError> {
        let ip_header = if socket.local_addr()?.is_ipv4() { 20 } else { 40 };
        Ok(self.limits(path_mtu(socket)?.saturating_sub(trailer), ip_header)?)
    }

    /// The packet limits if nothing is known of the path.
    pub fn usual_limits(&self) -> PathLimits {
        USUAL_LIMITS
    }

    /// The image of `asset`, whose name for people is `name`, as it is stored, within `limits`: an open image, one from the
    /// folder, or one that is being packed from now on. A failure of the last few seconds is returned again.
    pub fn image(&self, asset: Arc<File>, name: &str, limits: PathLimits) -> Result<Arc<Image>, StoreError> {
        self.image_for(None, asset, name, limits, PlayedAs::Stored)
    }

    /// The same for a client at this address, whose concurrent packings are limited, those by tracks too.
    pub fn image_for(
        &self,
        client: Option<IpAddr>,
        asset: Arc<File>,
        name: &str,
        limits: PathLimits,
        played_as: PlayedAs,
    ) -> Result<Arc<Image>, StoreError> {
        let follow = Follow::Nothing;
        self.open_image(Opening { client, asset, name, follow }, limits, played_as)
    }

    /// The same, but the image of a recording grows with it.
    pub(crate) fn image_to_follow(
        &self,
        client: IpAddr,
        asset: Arc<File>,
        name: &str,
        limits: PathLimits,
        played_as: PlayedAs,
        follow: Follow,
    ) -> Result<Arc<Image>, StoreError> {
        let client = Some(client);
        self.open_image(Opening { client, asset, name, follow }, limits, played_as)
    }

    /// Returns whether an asset is a recording to follow. Waits for storage.
    pub(crate) fn is_recording(
        &self,
        asset: &File,
        played_as: PlayedAs,
        follow: Follow,
    ) -> Result<bool, StoreError> {
        let (identity, recipe) = (identity(asset)?, packing::recipe(asset, USUAL_LIMITS, played_as)?);
        packing::is_recording(asset, identity, recipe, &self.estimates, follow)
    }

    fn open_image(
        &self,
        opening: Opening<'_>,
        limits: PathLimits,
        played_as: PlayedAs,
    ) -> Result<Arc<Image>, StoreError> {
        let Opening { client, asset, name, follow } = opening;
        read_only_as_told(&asset);
        let identity = identity(&asset)?;
        let key = self.key(&asset, identity, limits, played_as)?;
        let open_lock = self.open.lock().open_lock(key);
        let _alone = open_lock.lock();
        let known = self.open.lock().find(key, identity, follow != Follow::Nothing, Instant::now());
        let image = match known {
            Some(known) => {
                let image = known?;
                if image.identity() != identity {
                    image.note_behind();
                }
                image
            }
            None => {
                let request = Request { client, asset, name, key, identity, follow };
                let image = match self.stored(&request)? {
                    Some(image) => image,
                    None => self.pack(request)?,
                };
                self.open.lock().insert(key, &image);
                image
            }
        };
        let expired = self.open.lock().keep_idle(key, &image, Instant::now());
        drop(expired); // outside the lock
        Ok(image)
    }

    /// Duration of an asset in microseconds: that of its finished image, or as far as its beginning and end
    /// or its index show it. Waits for storage.
    pub(crate) fn duration_us(&self, asset: &File) -> Result<Option<u64>, StoreError> {
        if let Some(duration_us) = self.finished_duration_us(asset)? {
            return Ok(Some(duration_us));
        }
        let (identity, recipe) = (identity(asset)?, packing::recipe(asset, USUAL_LIMITS, PlayedAs::Stored)?);
        let examined = packing::examine(asset, identity, recipe, &self.estimates, Follow::Nothing)?;
        Ok(examined.summary.duration_us)
    }

    /// Description of an asset that is not packed, as far as its beginning or its index shows it. Its duration
    /// is not searched. Waits for storage.
    pub(crate) fn description(&self, asset: &File, played_as: PlayedAs) -> Result<Description, StoreError> {
        let (size, recipe) = (identity(asset)?.size, packing::recipe(asset, USUAL_LIMITS, played_as)?);
        packing::describe(asset, size, recipe, &self.estimates)
    }

    /// Duration of an asset in microseconds, if its image is finished. Waits for storage.
    pub(crate) fn finished_duration_us(&self, asset: &File) -> Result<Option<u64>, StoreError> {
        let identity = identity(asset)?;
        let key = Key::of(identity, packing::recipe(asset, USUAL_LIMITS, PlayedAs::Stored)?);
        // A statement of its own: the lock is released before the image is asked and dropped. An image that
        // could not be packed tells nothing about its asset.
        let open = self.open.lock().find(key, identity, true, Instant::now());
        if let Some(Ok(image)) = open {
            let is_complete = *image.progress().borrow() == Progress::Complete;
            return Ok(image.duration_us().filter(|_| is_complete));
        }
        // Without a lock and a mark of use: only the header is read, and a file that is removed now keeps it.
        let headers = [Layout::Image, Layout::Index].into_iter().filter_map(|layout| {
            let file = File::open(self.folder.path_of(&key.name_of(layout))).ok()?;
            read_header(&file).ok()
        });
        let mut current =
            headers.filter(|header| header.plan.identity == identity && header.plan.recipe == key.recipe);
        Ok(current.next().map(|header| header.duration_us))
    }

    /// The key of an asset within `limits`. The asset is read only if no image of it is open.
    fn key(
        &self,
        asset: &File,
        identity: Identity,
        limits: PathLimits,
        played_as: PlayedAs,
    ) -> Result<Key, StoreError> {
        let transport_stream = match played_as {
            PlayedAs::Stored => limits.transport_stream(),
            PlayedAs::Tracks => limits.demuxed(),
        };
        let keys = [transport_stream, limits.tracks()].map(|recipe| Key::of(identity, recipe));
        let open = self.open.lock();
        let known = keys.into_iter().find(|key| open.has(*key, identity));
        drop(open); // before storage is waited for
        known.map_or_else(|| Ok(Key::of(identity, packing::recipe(asset, limits, played_as)?)), Ok)
    }

    /// Path of the finished file from which an image is sent, or of the index if the image has no packets.
    pub fn path_of(&self, image: &Image) -> PathBuf {
        let layout = if image.is_sent_from_asset() { Layout::Index } else { Layout::Image };
        let Plan { identity, recipe, .. } = *image.plan();
        self.folder.path_of(&Key::of(identity, recipe).name_of(layout))
    }

    /// Stops packing permanently: incomplete images fail, and their files are removed from the folder.
    pub fn stop_packing(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Stores the popularity of assets for the next start. Waits for storage.
    pub fn keep_popularity(&self) {
        self.popularity.keep();
    }

    /// The images that are open. Never waits for storage.
    pub fn open_images(&self) -> Vec<Arc<Image>> {
        self.expire_idle();
        self.open.lock().images()
    }

    /// Counters, and the current space of images. Never waits for storage.
    pub fn counts(&self) -> StoreCounts {
        self.counters.open.set(self.open_images().len() as u64);
        self.counters.cache_used_bytes.set(self.folder.used());
        self.counters.cache_budget_bytes.set(self.folder.budget());
        let backlog = self.packers.backlog();
        self.counters.packings.set(backlog.works as u64);
        self.counters.packing_memory_bytes.set(backlog.held_bytes);
        self.counters.packing_memory_budget_bytes.set(self.options.packing_memory_bytes);
        self.counters.snapshot()
    }

    /// Counters of the page memory of media that was read for playbacks.
    pub fn page_counts(&self) -> PageCounts {
        self.page_memory.counts()
    }

    /// Lets a reader close expired images.
    fn expire_idle(&self) {
        let expired = self.open.lock().expire(Instant::now());
        if !expired.is_empty() {
            self.options.readers.discard(expired);
        }
    }

    /// A good image or index from the folder, whose segments are not verified yet.
    fn stored(&self, request: &Request<'_>) -> Result<Option<Arc<Image>>, StoreError> {
        let packs_only = self.options.images == ImagePolicy::AtOnce;
        if let Some(stored) = self.stored_as(Layout::Image, request)? {
            self.counters.found.increment();
            let plan = stored.header.plan;
            let image = self.open_stored(stored, Layout::Image, request);
            if !packs_only {
                let index = self.stored_as(Layout::Index, request)?.filter(|index| index.header.plan == plan);
                if let Some(StoredFile { files, table, .. }) = index {
                    image.set_index(files, &table.segments);
                }
            }
            return Ok(Some(image));
        }
        if packs_only {
            return Ok(None);
        }
        let index = self.stored_as(Layout::Index, request)?;
        self.counters.indexes_found.add(index.iter().count() as u64);
        Ok(index.map(|index| self.open_stored(index, Layout::Index, request)))
    }

    /// A good file from the folder.
    fn stored_as(&self, layout: Layout, request: &Request<'_>) -> Result<Option<StoredFile>, StoreError> {
        let name = request.key.name_of(layout);
        let Some(file) = self.folder.find(&name)? else { return Ok(None) };
        let Some((header, table)) = self.read_good(&file, &name, request)? else { return Ok(None) };
        let (asset, length) = (&request.asset, header.table.offset);
        let files = packing::files(file.into(), layout, asset, &header.plan, length)?;
        Ok(Some(StoredFile { header, table, files }))
    }

    fn open_stored(&self, stored: StoredFile, layout: Layout, request: &Request<'_>) -> Arc<Image> {
        let StoredFile { header, table, files } = stored;
        let summary = Summary::of(&header, table.description);
        let image = self.new_image(request, header.plan, summary.clone(), layout);
        image.begin(0, files);
        image.grow(0, &table.segments, &table.starts, false);
        image.end(0, Ok(summary));
        image
    }

    /// Header and table of a file that is undamaged and of the current version of the asset.
    fn read_good(
        &self,
        file: &File,
        name: &str,
        request: &Request<'_>,
    ) -> Result<Option<(Header, Table)>, StoreError> {
        let Request { name: asset, key, identity, .. } = *request;
        let path = self.folder.path_of(name);
        let (header, table) = match read_image(file) {
            Ok(read) => read,
            Err(error) if error.is_damage() => {
                let image = path.display();
                tracing::warn!(asset, %image, %error, "a wire image is damaged: it is removed");
                self.reject(name, file);
                return Ok(None);
            }
            Err(error) => return Err(io_error("reading the wire image", io::Error::other(error))),
        };
        if header.plan.identity != identity || header.plan.recipe != key.recipe {
            let image = path.display();
            tracing::info!(asset, %image, "the asset of a wire image has changed: the image is removed");
            self.reject(name, file);
            return Ok(None);
        }
        Ok(Some((header, table)))
    }

    /// Removes a file that cannot be played. If that fails, other files still serve.
    fn reject(&self, name: &str, file: &File) {
        self.counters.rejected.increment();
        if let Err(error) = self.folder.remove(name, file) {
            let image = self.folder.path_of(name);
            tracing::warn!(image = %image.display(), %error, "removing a wire image failed: delete it");
        }
    }

    /// Begins to pack an image or an index.
    fn pack(&self, request: Request<'_>) -> Result<Arc<Image>, StoreError> {
        let permit = request.client.map(|client| self.admit_packing(client)).transpose()?;
        let (identity, recipe) = (request.identity, request.key.recipe);
        let Examined { summary, streams, is_recorded } =
            packing::examine(&request.asset, identity, recipe, &self.estimates, request.follow)?;
        summary.warn(request.name, 0);
        let plan = Plan { identity, recipe, streams };
        // An index refers to a file of a fixed length.
        let layout = if is_recorded { Layout::Image } else { self.first_layout(&summary) };
        if !recipe.is_transport_stream() && layout == Layout::Image {
            self.folder.check_length(packing::first_length(&plan))?;
        }
        let image = self.new_image(&request, plan, summary, layout);
        if is_recorded {
            image.follow();
        }
        self.submit(request.asset, request.key, Arc::clone(&image), layout, permit)?;
        Ok(image)
    }

    fn admit_packing(&self, client: IpAddr) -> Result<Permit, StoreError> {
        self.packings.admit(client).map_err(|_| {
            self.counters.packings_refused.increment();
            StoreError::AddressBusy
        })
    }

    /// Layout in which an asset is packed while playbacks wait.
    fn first_layout(&self, summary: &Summary) -> Layout {
        match self.options.images {
            ImagePolicy::AtOnce => Layout::Image,
            _ => packing::first_layout(summary),
        }
    }

    fn new_image(&self, request: &Request<'_>, plan: Plan, summary: Summary, layout: Layout) -> Arc<Image> {
        let key = request.key;
        let asset = DropOnPool::new(Arc::clone(&request.asset), &self.options.readers);
        let (store, path) = (self.this.clone(), self.folder.path_of(&key.name_of(layout)));
        let memory = Arc::clone(&self.page_memory);
        let readers = Readers { pool: self.options.readers.clone(), memory };
        let played = self.popularity.counter(key, request.identity);
        Image::new(request.name, path, plan, summary, readers, played, move |image, damage| {
            let Some(store) = store.upgrade() else { return };
            let generation = damage.generation;
            if let Err(error) = store.repair(Arc::clone(&asset), key, &image, damage) {
                store.fail(key, &image, generation, error);
            }
        })
    }

    /// Packs a damaged image again, by the same plan, so that its bytes become the same and playbacks
    /// continue.
    fn repair(
        &self,
        asset: Arc<File>,
        key: Key,
        image: &Arc<Image>,
        damage: Damage,
    ) -> Result<(), StoreError> {
        let name = key.name_of(damage.layout);
        let path = self.folder.path_of(&name);
        let error = damage.error.as_str();
        tracing::warn!(asset = image.name(), image = %path.display(), error, "a wire image is damaged");
        if damage.is_replaced {
            self.making.decline(image);
            self.reject(&name, damage.mapped_file.file());
            return Ok(());
        }
        self.counters.rejected.increment();
        self.folder.remove(&name, damage.mapped_file.file())?;
        drop(damage.mapped_file); // frees its space
        if damage.generation > REPAIRS {
            let reason = format!(
                "damaged after it was packed again {REPAIRS} times ({}); check the disk of the cache folder",
                damage.error
            );
            return Err(io_error("reading the wire image", io::Error::other(reason)));
        }
        // Segments of a recording end where it had grown to, so it cannot be packed in the same way again.
        if image.is_recorded() || identity(&asset)? != image.plan().identity {
            let reason =
                "the wire image is damaged, and the asset has changed since it was packed".to_owned();
            return Err(StoreError::NotPlayable(reason));
        }
        let layout = self.first_layout(&image.summary());
        self.submit(asset, key, Arc::clone(image), layout, None)
    }

    /// Ends an image that failed, unless it started over meanwhile.
    fn fail(&self, key: Key, image: &Image, generation: u32, error: StoreError) {
        if image.generation() != generation {
            return;
        }
        let (asset, path) = (image.name(), image.path().display());
        let failure = error.failure();
        if let StoreError::Stopped = error {
            tracing::info!(asset, image = %path, "packing was stopped");
        } else {
            self.counters.failed.increment();
            let now = Instant::now();
            let is_logged = self.open.lock().note_failure(key, image.identity(), &error, now);
            if is_logged {
                tracing::warn!(asset, image = %path, %error, "cannot pack an asset");
            } else {
                tracing::debug!(asset, image = %path, %error, "cannot pack an asset");
            }
            self.open.lock().fail(key, image, error, now);
        }
        image.end(generation, Err(failure));
    }

    /// Begins an image or an index in the folder.
    fn begin(&self, key: Key, layout: Layout, plan: &Plan) -> Result<Draft, StoreError> {
        let name = key.name_of(layout);
        match layout {
            Layout::Image => self.with_room(|| self.folder.begin(&name, packing::first_length(plan))),
            Layout::Index => {
                let length = packing::index_length_bound(plan);
                self.with_room(|| self.folder.begin_index(&name, length))
            }
        }
    }

    /// Calls a function that needs space in the folder. Closes idle images if necessary to make space.
    fn with_room<T>(&self, mut call: impl FnMut() -> Result<T, FolderError>) -> Result<T, StoreError> {
        match call() {
            Err(FolderError::Budget { .. } | FolderError::DiskFull(..)) => {
                let idle = self.open.lock().expire_all();
                drop(idle); // outside the lock
                self.evict_recordings();
                self.options.readers.wait_for_discarded();
                Ok(call()?)
            }
            result => Ok(result?),
        }
    }

    /// The error for writing a file of `needed` bytes, with advice if the disk is full.
    fn name_full_disk(&self, error: StoreError, needed: u64) -> StoreError {
        match error {
            StoreError::Io(_, source) if is_full(&source) => self.folder.disk_full(needed).into(),
            error => error,
        }
    }
}

/// An image or an index from the cache.
struct StoredFile {
    header: Header,
    table: Table,
    files: Files,
}

/// A request for an image.
struct Request<'a> {
    client: Option<IpAddr>,
    asset: Arc<File>,
    name: &'a str,
    key: Key,
    identity: Identity,
    follow: Follow,
}

/// An asset to open: for a client, under a name, and as in a [`Request`].
struct Opening<'a> {
    client: Option<IpAddr>,
    asset: Arc<File>,
    name: &'a str,
    follow: Follow,
}

/// Closes expired images even without requests, and stores the popularity, until the store has ended.
fn run_expiry(store: &Weak<Store>, ended: &Receiver<()>) {
    let mut kept = Instant::now();
    while let Some(there) = store.upgrade() {
        there.expire_idle();
        if kept.elapsed() >= KEEP_INTERVAL {
            there.keep_popularity();
            kept = Instant::now();
        }
        let next = there.open.lock().next_expiry(Instant::now());
        let next = next.min(KEEP_INTERVAL.saturating_sub(kept.elapsed()));
        drop(there);
        if ended.recv_timeout(next) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}
