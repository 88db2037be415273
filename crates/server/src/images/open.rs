//! Open, idle and failed images: bookkeeping without waiting for storage.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wirepath_media::image::Identity;

use super::error::{FailureKind, StoreError};
use super::image::Image;
use super::key::Key;

/// Most idle images, which are kept open so that they need not be verified again.
const MAX_IDLE: usize = 32;

/// Time after the last request for which an idle image is kept, before the space of a deleted asset is freed.
pub(super) const IDLE_TTL: Duration = Duration::from_secs(60);

/// Time for which a failure is remembered and not retried.
const FAILURE_TTL: Duration = Duration::from_secs(10);

/// Most assets whose failures are remembered so that they are logged once.
const MOST_LOGGED: usize = 4096;

/// Time after which a failure is logged again, unless the asset itself is at fault.
const LOG_INTERVAL: Duration = Duration::from_secs(600);

/// Time after the last request for which packing continues though nobody holds the image, as between DESCRIBE
/// and SETUP.
const ABANDON_DELAY: Duration = Duration::from_secs(10);

/// Open images. Methods return removed images, which the caller drops where files may be closed.
pub(super) struct OpenImages {
    idle_ttl: Duration,
    images: HashMap<Key, Weak<Image>>,
    /// Images of recordings, which grow with them.
    recorded: HashMap<Key, Weak<Image>>,
    /// Lock held while the image of a key is opened, so that concurrent requests share it.
    open_locks: HashMap<Key, Weak<Mutex<()>>>,
    idle: VecDeque<Idle>,
    failures: HashMap<Key, Failure>,
    /// Failures that were logged, until the asset can be packed.
    logged: HashMap<Key, LoggedFailures>,
}

struct Idle {
    image: Arc<Image>,
    used: Instant,
}

/// Failures of a version of an asset that were logged.
struct LoggedFailures {
    identity: Identity,
    /// Kinds, with the times at which they were logged.
    kinds: Vec<(FailureKind, Instant)>,
}

struct Failure {
    identity: Identity,
    error: StoreError,
    at: Instant,
}

impl OpenImages {
    pub(super) fn new(idle_ttl: Duration) -> OpenImages {
        OpenImages {
            idle_ttl,
            images: HashMap::new(),
            recorded: HashMap::new(),
            open_locks: HashMap::new(),
            idle: VecDeque::new(),
            failures: HashMap::new(),
            logged: HashMap::new(),
        }
    }

    /// Notes the failure to pack a version of an asset. Returns whether it is to be logged: once if the asset is at
    /// fault, since it fails in the same way again, else if none of this kind was logged in the last ten minutes.
    pub(super) fn note_failure(
        &mut self,
        key: Key,
        identity: Identity,
        error: &StoreError,
        now: Instant,
    ) -> bool {
        if self.logged.len() == MOST_LOGGED && !self.logged.contains_key(&key) {
            self.logged.clear();
        }
        let new = || LoggedFailures { identity, kinds: Vec::new() };
        let logged = self.logged.entry(key).or_insert_with(new);
        if logged.identity != identity {
            *logged = new();
        }
        let (kind, is_lasting) = (error.kind(), matches!(error, StoreError::NotPlayable(_)));
        match logged.kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, at)) if is_lasting || now.duration_since(*at) < LOG_INTERVAL => return false,
            Some((_, at)) => *at = now,
            None => logged.kinds.push((kind, now)),
        }
        true
    }

    /// Notes that an asset was packed.
    pub(super) fn note_packed(&mut self, key: Key) {
        self.logged.remove(&key);
    }

    /// Returns whether an image of this version of an asset is open, or failed.
    pub(super) fn has(&self, key: Key, identity: Identity) -> bool {
        let images = [&self.recorded, &self.images].map(|images| images.get(&key).and_then(Weak::upgrade));
        self.failures.get(&key).is_some_and(|failure| failure.identity == identity)
            || images.into_iter().flatten().any(|image| image.is_of(identity))
    }

    /// The image, if it is open, or a recent failure to open it. An image that grows with a recording is only for a
    /// request that `follows` recordings: others would wait at its edge, or miss its end.
    pub(super) fn find(
        &mut self,
        key: Key,
        identity: Identity,
        follows: bool,
        now: Instant,
    ) -> Option<Result<Arc<Image>, StoreError>> {
        self.failures.retain(|_, failure| now.duration_since(failure.at) < FAILURE_TTL);
        if let Some(failure) = self.failures.get(&key).filter(|failure| failure.identity == identity) {
            return Some(Err(failure.error.clone()));
        }
        let images = [&self.recorded, &self.images].map(|images| images.get(&key).and_then(Weak::upgrade));
        let mut images = images.into_iter().flatten();
        let found = images.find(|image| {
            image.is_of(identity) && !image.has_failed() && (follows || !image.grows_with_recording())
        });
        found.map(Ok)
    }

    /// Lock to hold while the image of this key is opened.
    pub(super) fn open_lock(&mut self, key: Key) -> Arc<Mutex<()>> {
        if let Some(lock) = self.open_locks.get(&key).and_then(Weak::upgrade) {
            return lock;
        }
        self.open_locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        self.open_locks.insert(key, Arc::downgrade(&lock));
        lock
    }

    /// Adds an image that was just opened.
    pub(super) fn insert(&mut self, key: Key, image: &Arc<Image>) {
        let images = if image.is_recorded() { &mut self.recorded } else { &mut self.images };
        images.retain(|_, image| image.strong_count() > 0);
        images.insert(key, Arc::downgrade(image));
    }

    /// Keeps an image open for a while, whether or not anybody plays it; returns expired images.
    #[must_use]
    pub(super) fn keep_idle(&mut self, key: Key, image: &Arc<Image>, now: Instant) -> Vec<Arc<Image>> {
        self.idle.retain(|idle| !Arc::ptr_eq(&idle.image, image));
        let identity = image.identity();
        let failed = self.failures.get(&key).is_some_and(|failure| failure.identity == identity);
        if !failed && !image.has_failed() {
            self.idle.push_back(Idle { image: Arc::clone(image), used: now });
        }
        self.expire(now)
    }

    /// Removes images without a request in this time. The least recently used ones are first.
    #[must_use]
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Arc<Image>> {
        let over = self.idle.iter().take_while(|idle| now.duration_since(idle.used) >= self.idle_ttl).count();
        let over = over.max(self.idle.len().saturating_sub(MAX_IDLE));
        self.idle.drain(..over).map(|idle| idle.image).collect()
    }

    /// Time until an image may expire.
    pub(super) fn next_expiry(&self, now: Instant) -> Duration {
        let left = |idle: &Idle| self.idle_ttl.saturating_sub(now.duration_since(idle.used));
        self.idle.front().map_or(self.idle_ttl, left)
    }

    /// Removes all idle images.
    #[must_use]
    pub(super) fn expire_all(&mut self) -> Vec<Arc<Image>> {
        self.idle.drain(..).map(|idle| idle.image).collect()
    }

    /// Remembers the failure of an image, which no longer counts as idle.
    pub(super) fn fail(&mut self, key: Key, image: &Image, error: StoreError, now: Instant) {
        self.failures.insert(key, Failure { identity: image.identity(), error, at: now });
        self.remove_idle(image);
    }

    /// Returns whether others than the packer hold this image, or it was requested recently.
    pub(super) fn is_wanted(&self, image: &Arc<Image>, now: Instant) -> bool {
        let idle = self.idle.iter().find(|idle| Arc::ptr_eq(&idle.image, image));
        let lately = idle.is_some_and(|idle| now.duration_since(idle.used) < ABANDON_DELAY);
        let held = Arc::strong_count(image) - usize::from(idle.is_some()) > 1;
        lately || held
    }

    /// Returns whether only the packer holds this image and it was not requested recently. If so, the image
    /// is forgotten, and the next request opens another.
    pub(super) fn abandon(&mut self, key: Key, image: &Arc<Image>, now: Instant) -> bool {
        if self.is_wanted(image, now) {
            return false;
        }
        self.remove_idle(image);
        for images in [&mut self.recorded, &mut self.images] {
            if images.get(&key).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(image))) {
                images.remove(&key);
            }
        }
        true
    }

    /// The images that are open.
    pub(super) fn images(&self) -> Vec<Arc<Image>> {
        self.recorded.values().chain(self.images.values()).filter_map(Weak::upgrade).collect()
    }

    /// Removes an image that the caller holds, so it is not dropped here.
    fn remove_idle(&mut self, image: &Image) {
        self.idle.retain(|idle| !std::ptr::eq(Arc::as_ptr(&idle.image), image));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::page_memory::{PageMemory, Readers};
    use crate::images::{Failure as ImageFailure, FolderError, Summary};
    use wirepath_engine::{BlockingPool, Priority};
    use wirepath_media::image::{Plan, Recipe, StreamPlan};

    const RECIPE: Recipe = Recipe::transport_stream(7, 20_000);

    fn image(inode: u64) -> (Key, Identity, Arc<Image>) {
        let identity = Identity { size: 1, mtime_ns: 2, inode, device: 3 };
        let plan = Plan { identity, recipe: RECIPE, streams: StreamPlan::transport_stream(4, 5, 6).into() };
        let pool = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let readers = Readers { pool, memory: PageMemory::new(None) };
        let image =
            Image::new("a.ts", "a.wpi".into(), plan, Summary::default(), readers, Arc::default(), |_, _| {});
        (Key::of(identity, RECIPE), identity, image)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_failure_of_an_asset_is_logged_once_until_it_can_be_packed() {
        let (mut open, now) = (OpenImages::new(IDLE_TTL), Instant::now());
        let (key, identity, _image) = image(1);
        let (other, other_identity, _other_image) = image(2);
        let error = |text: &str| StoreError::NotPlayable(text.to_owned());
        assert!(open.note_failure(key, identity, &error("no clock"), now));
        assert!(!open.note_failure(key, identity, &error("no clock at 188"), now), "of the same kind");
        assert!(!open.note_failure(key, identity, &error("no clock"), now + seconds(6000)));
        assert!(open.note_failure(other, other_identity, &error("no clock"), now));
        let changed = Identity { mtime_ns: 3, ..identity };
        assert!(open.note_failure(key, changed, &error("no clock"), now));
        open.note_packed(key);
        assert!(open.note_failure(key, changed, &error("no clock"), now));
        assert!(!open.note_failure(other, other_identity, &error("no clock"), now));
    }

    #[test]
    fn other_failures_are_logged_once_in_ten_minutes() {
        let (mut open, now) = (OpenImages::new(IDLE_TTL), Instant::now());
        let (key, identity, _image) = image(1);
        let io = |errno| StoreError::Io("reading", Arc::new(std::io::Error::from_raw_os_error(errno)));
        let full = StoreError::Folder(FolderError::DiskFull("cache".into(), 1));
        let folder = FolderError::Io("cache".into(), Arc::new(std::io::Error::from_raw_os_error(5)));
        let errors = [io(5), io(13), full, StoreError::Folder(folder), StoreError::Busy];
        for (after, is_logged) in [(0, true), (1, false), (599, false), (600, true), (601, false)] {
            for error in &errors {
                let noted = open.note_failure(key, identity, error, now + seconds(after));
                assert_eq!(noted, is_logged, "{error} after {after} s");
            }
        }
    }

    #[test]
    fn an_unused_image_is_closed_after_a_minute() {
        let (mut open, now) = (OpenImages::new(IDLE_TTL), Instant::now());
        let (old, _, old_image) = image(1);
        let (new, _, new_image) = image(2);
        assert!(open.keep_idle(old, &old_image, now).is_empty());
        assert!(open.keep_idle(new, &new_image, now + seconds(30)).is_empty());
        assert!(open.expire(now + seconds(59)).is_empty());
        assert_eq!(open.next_expiry(now + seconds(59)), seconds(1));
        let gone = open.expire(now + seconds(60));
        assert!(gone.len() == 1 && Arc::ptr_eq(&gone[0], &old_image));
        assert!(open.keep_idle(new, &new_image, now + seconds(80)).is_empty());
        assert!(open.expire(now + seconds(139)).is_empty());
        assert_eq!(open.expire(now + seconds(140)).len(), 1);
        assert_eq!(open.next_expiry(now + seconds(140)), IDLE_TTL, "nothing can be over before");
    }

    #[test]
    fn a_failure_is_answered_for_ten_seconds_and_for_that_version_of_the_asset_only() {
        let (mut open, now) = (OpenImages::new(IDLE_TTL), Instant::now());
        let (key, identity, failed) = image(1);
        open.insert(key, &failed);
        assert!(open.keep_idle(key, &failed, now).is_empty());
        open.fail(key, &failed, StoreError::NotPlayable("no clock".to_owned()), now);
        assert_eq!(Arc::strong_count(&failed), 1, "it rests no longer");
        let changed = Identity { mtime_ns: 9, ..identity };
        assert!(open.find(key, changed, false, now).is_none());
        let answer = open.find(key, identity, false, now + seconds(9));
        assert!(matches!(answer, Some(Err(StoreError::NotPlayable(_)))));
        assert!(open.keep_idle(key, &failed, now + seconds(9)).is_empty());
        assert_eq!(Arc::strong_count(&failed), 1, "nor does it begin to");
        failed.end(
            0,
            Err(ImageFailure { reason: "no clock".into(), public: "no clock".into(), is_asset: true }),
        );
        assert!(open.find(key, identity, false, now + seconds(10)).is_none());
    }

    #[test]
    fn packing_is_abandoned_when_nobody_but_the_packer_holds_the_image() {
        let (mut open, now) = (OpenImages::new(IDLE_TTL), Instant::now());
        let (key, identity, packer) = image(1);
        let user = Arc::clone(&packer);
        open.insert(key, &packer);
        assert!(open.keep_idle(key, &user, now).is_empty());
        assert!(!open.abandon(key, &packer, now + seconds(20)), "somebody has it");
        drop(user);
        assert!(!open.abandon(key, &packer, now + seconds(9)), "somebody asked for it a moment ago");
        assert!(open.find(key, identity, false, now).is_some());
        assert!(open.abandon(key, &packer, now + seconds(10)));
        assert_eq!(Arc::strong_count(&packer), 1);
        assert!(open.find(key, identity, false, now).is_none());
    }

    #[test]
    fn two_openers_of_one_image_share_a_lock() {
        let mut open = OpenImages::new(IDLE_TTL);
        let (key, ..) = image(1);
        let (other, ..) = image(2);
        let open_lock = open.open_lock(key);
        assert!(Arc::ptr_eq(&open_lock, &open.open_lock(key)));
        assert!(!Arc::ptr_eq(&open_lock, &open.open_lock(other)));
        drop(open_lock);
        let _third = open.open_lock(image(3).0);
        assert_eq!(open.open_locks.len(), 1, "open_locks that nobody uses are forgotten");
    }
}
