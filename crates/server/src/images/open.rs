//! Which images are open, at rest, or failed a moment ago: bookkeeping that never waits for storage.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wirepath_media::image::{Identity, Recipe};

use super::image::Image;
use super::store::StoreError;

/// Images that nobody plays are kept open up to this number, so that they need not be checked again.
const RESTING: usize = 32;

/// They are kept for this long after they were last asked for, so that assets that were deleted become free.
pub(super) const IDLE_TTL: Duration = Duration::from_secs(60);

/// For this long a failure is answered instead of being tried again.
const FAILURE: Duration = Duration::from_secs(10);

/// For this long after it was asked for, an image is packed though nobody holds it: between DESCRIBE and
/// SETUP nobody does.
const UNHELD: Duration = Duration::from_secs(10);

/// Key of an image: one version of a file has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) recipe: Recipe,
}

/// Open images. Methods return the images that they let go of, to be dropped where files may be closed.
pub(super) struct Open {
    /// Time that images rest.
    rest: Duration,
    images: HashMap<Key, Weak<Image>>,
    /// Held by whoever opens the image of a key, so that two who ask at once share one.
    doors: HashMap<Key, Weak<Mutex<()>>>,
    resting: VecDeque<Resting>,
    failures: HashMap<Key, Failure>,
}

struct Resting {
    image: Arc<Image>,
    used: Instant,
}

struct Failure {
    identity: Identity,
    error: StoreError,
    at: Instant,
}

impl Key {
    pub(super) fn of(identity: Identity, recipe: Recipe) -> Key {
        Key { device: identity.device, inode: identity.inode, recipe }
    }

    /// Name in the cache.
    pub(super) fn name(&self) -> String {
        let Recipe { ts_per_packet, burst_us } = self.recipe;
        format!("{:x}-{:x}-{ts_per_packet}x{burst_us}", self.device, self.inode)
    }

    /// Returns whether `name` is such a name.
    pub(super) fn is_name(name: &str) -> bool {
        let numbers = || {
            let (device, rest) = name.split_once('-')?;
            let (inode, recipe) = rest.split_once('-')?;
            let (ts_per_packet, burst_us) = recipe.split_once('x')?;
            let recipe =
                Recipe { ts_per_packet: ts_per_packet.parse().ok()?, burst_us: burst_us.parse().ok()? };
            let hex = |digits| u64::from_str_radix(digits, 16).ok();
            Some(Key { device: hex(device)?, inode: hex(inode)?, recipe })
        };
        // A number may be written in other ways (`+7`, `07`); only ours is.
        numbers().is_some_and(|key| key.name() == name)
    }
}

impl Open {
    /// Nothing yet; what will be opened rests for `rest` after it was last asked for.
    pub(super) fn new(rest: Duration) -> Open {
        Open {
            rest,
            images: HashMap::new(),
            doors: HashMap::new(),
            resting: VecDeque::new(),
            failures: HashMap::new(),
        }
    }

    /// The image, if it is open, or why there was none a moment ago.
    pub(super) fn find(
        &mut self,
        key: Key,
        identity: Identity,
        now: Instant,
    ) -> Option<Result<Arc<Image>, StoreError>> {
        self.failures.retain(|_, failure| now.duration_since(failure.at) < FAILURE);
        if let Some(failure) = self.failures.get(&key).filter(|failure| failure.identity == identity) {
            return Some(Err(failure.error.clone()));
        }
        let image = self.images.get(&key).and_then(Weak::upgrade)?;
        (image.plan().identity == identity && !image.has_failed()).then_some(Ok(image))
    }

    /// Lock to hold while the image of this key is opened.
    pub(super) fn door(&mut self, key: Key) -> Arc<Mutex<()>> {
        if let Some(door) = self.doors.get(&key).and_then(Weak::upgrade) {
            return door;
        }
        self.doors.retain(|_, door| door.strong_count() > 0);
        let door = Arc::default();
        self.doors.insert(key, Arc::downgrade(&door));
        door
    }

    /// Adds an image that was just opened.
    pub(super) fn insert(&mut self, key: Key, image: &Arc<Image>) {
        self.images.retain(|_, image| image.strong_count() > 0);
        self.images.insert(key, Arc::downgrade(image));
    }

    /// Keeps an image open for a while, whether anybody plays it or not, and lets go of those whose time is
    /// over.
    #[must_use]
    pub(super) fn rest(&mut self, key: Key, image: &Arc<Image>, now: Instant) -> Vec<Arc<Image>> {
        self.resting.retain(|resting| !Arc::ptr_eq(&resting.image, image));
        let identity = image.plan().identity;
        let failed = self.failures.get(&key).is_some_and(|failure| failure.identity == identity);
        if !failed && !image.has_failed() {
            self.resting.push_back(Resting { image: Arc::clone(image), used: now });
        }
        self.let_go(now)
    }

    /// Lets go of images that nobody asked for in a while. The longest unused are in front.
    #[must_use]
    pub(super) fn let_go(&mut self, now: Instant) -> Vec<Arc<Image>> {
        let over =
            self.resting.iter().take_while(|resting| now.duration_since(resting.used) >= self.rest).count();
        let over = over.max(self.resting.len().saturating_sub(RESTING));
        self.resting.drain(..over).map(|resting| resting.image).collect()
    }

    /// Time until an image may have rested long enough.
    pub(super) fn next_over(&self, now: Instant) -> Duration {
        let left = |resting: &Resting| self.rest.saturating_sub(now.duration_since(resting.used));
        self.resting.front().map_or(self.rest, left)
    }

    /// Lets go of all images at rest.
    #[must_use]
    pub(super) fn let_all_go(&mut self) -> Vec<Arc<Image>> {
        self.resting.drain(..).map(|resting| resting.image).collect()
    }

    /// Remembers why an image failed; it rests no longer.
    pub(super) fn fail(&mut self, key: Key, image: &Image, error: StoreError, now: Instant) {
        self.failures.insert(key, Failure { identity: image.plan().identity, error, at: now });
        self.remove_resting(image);
    }

    /// Returns whether nobody holds this image but its packer, nor asked for it lately. Then it is forgotten,
    /// so that whoever asks for it from now on gets another.
    pub(super) fn abandon(&mut self, key: Key, image: &Arc<Image>, now: Instant) -> bool {
        let resting = self.resting.iter().find(|resting| Arc::ptr_eq(&resting.image, image));
        let lately = resting.is_some_and(|resting| now.duration_since(resting.used) < UNHELD);
        let held = Arc::strong_count(image) - usize::from(resting.is_some()) > 1;
        if lately || held {
            return false;
        }
        self.remove_resting(image);
        if self.images.get(&key).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(image))) {
            self.images.remove(&key);
        }
        true
    }

    /// The images that are open.
    pub(super) fn images(&self) -> Vec<Arc<Image>> {
        self.images.values().filter_map(Weak::upgrade).collect()
    }

    /// Number of open images.
    pub(super) fn count(&self) -> usize {
        self.images.values().filter(|image| image.strong_count() > 0).count()
    }

    /// Removes an image that the caller holds: it is not dropped here.
    fn remove_resting(&mut self, image: &Image) {
        self.resting.retain(|resting| !std::ptr::eq(Arc::as_ptr(&resting.image), image));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::{Failure as ImageFailure, Summary};
    use wirepath_engine::{BlockingPool, Priority};
    use wirepath_media::image::Plan;

    const RECIPE: Recipe = Recipe { ts_per_packet: 7, burst_us: 20_000 };

    fn image(inode: u64) -> (Key, Identity, Arc<Image>) {
        let identity = Identity { size: 1, mtime_ns: 2, inode, device: 3 };
        let plan = Plan { identity, recipe: RECIPE, ssrc: 4, sequence: 5, timestamp: 6 };
        let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let image = Image::new("a.ts", "a.wpi".into(), plan, Summary::default(), readers, |_, _| {});
        (Key::of(identity, RECIPE), identity, image)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_image_that_nobody_asks_for_is_let_go_of_after_a_minute() {
        let (mut open, now) = (Open::new(IDLE_TTL), Instant::now());
        let (old, _, old_image) = image(1);
        let (new, _, new_image) = image(2);
        assert!(open.rest(old, &old_image, now).is_empty());
        assert!(open.rest(new, &new_image, now + seconds(30)).is_empty());
        assert!(open.let_go(now + seconds(59)).is_empty());
        assert_eq!(open.next_over(now + seconds(59)), seconds(1));
        let gone = open.let_go(now + seconds(60));
        assert!(gone.len() == 1 && Arc::ptr_eq(&gone[0], &old_image));
        assert!(open.rest(new, &new_image, now + seconds(80)).is_empty());
        assert!(open.let_go(now + seconds(139)).is_empty());
        assert_eq!(open.let_go(now + seconds(140)).len(), 1);
        assert_eq!(open.next_over(now + seconds(140)), IDLE_TTL, "nothing can be over before");
    }

    #[test]
    fn a_failure_is_answered_for_ten_seconds_and_for_that_version_of_the_asset_only() {
        let (mut open, now) = (Open::new(IDLE_TTL), Instant::now());
        let (key, identity, failed) = image(1);
        open.insert(key, &failed);
        assert!(open.rest(key, &failed, now).is_empty());
        open.fail(key, &failed, StoreError::NotPlayable("no clock".to_owned()), now);
        assert_eq!(Arc::strong_count(&failed), 1, "it rests no longer");
        let changed = Identity { mtime_ns: 9, ..identity };
        assert!(open.find(key, changed, now).is_none());
        let answer = open.find(key, identity, now + seconds(9));
        assert!(matches!(answer, Some(Err(StoreError::NotPlayable(_)))));
        assert!(open.rest(key, &failed, now + seconds(9)).is_empty());
        assert_eq!(Arc::strong_count(&failed), 1, "nor does it begin to");
        failed.end(0, Err(ImageFailure { reason: "no clock".into(), public: "no clock".into() }));
        assert!(open.find(key, identity, now + seconds(10)).is_none());
    }

    #[test]
    fn packing_is_abandoned_when_nobody_but_the_packer_holds_the_image() {
        let (mut open, now) = (Open::new(IDLE_TTL), Instant::now());
        let (key, identity, packer) = image(1);
        let user = Arc::clone(&packer);
        open.insert(key, &packer);
        assert!(open.rest(key, &user, now).is_empty());
        assert!(!open.abandon(key, &packer, now + seconds(20)), "somebody has it");
        drop(user);
        assert!(!open.abandon(key, &packer, now + seconds(9)), "somebody asked for it a moment ago");
        assert!(open.find(key, identity, now).is_some());
        assert!(open.abandon(key, &packer, now + seconds(10)));
        assert_eq!(Arc::strong_count(&packer), 1);
        assert!(open.find(key, identity, now).is_none());
    }

    #[test]
    fn two_who_open_one_image_share_a_door() {
        let mut open = Open::new(IDLE_TTL);
        let (key, ..) = image(1);
        let (other, ..) = image(2);
        let door = open.door(key);
        assert!(Arc::ptr_eq(&door, &open.door(key)));
        assert!(!Arc::ptr_eq(&door, &open.door(other)));
        drop(door);
        let _third = open.door(image(3).0);
        assert_eq!(open.doors.len(), 1, "doors that nobody uses are forgotten");
    }
}
