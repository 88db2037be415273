//! A channel: opens the items of its playlist one after the other, each before it is needed.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::OFlags;
use wirepath_media::image::{Description, PathLimits};

use super::item::Item;
use super::playlist::{Entry, Playlist, PlaylistError};
use super::{ChannelOptions, SendFailure};
use crate::images::{Image, Store};

/// Time until the next attempt after nothing of a whole list could be opened, or sent.
const RETRY: Duration = Duration::from_secs(5);

/// Channel.
pub(crate) struct Channel {
    options: ChannelOptions,
    store: Arc<Store>,
    limits: PathLimits,
    playlist: Mutex<Playlist>,
    /// True from a request to read the list again until that is done.
    is_changed: AtomicBool,
}

/// Place in a playlist.
struct ListPlace {
    index: usize,
    entry: Entry,
}

impl Channel {
    /// A channel whose list was read, and its first item. Waits for storage.
    pub(crate) fn open(
        options: ChannelOptions,
        playlist: Playlist,
        store: Arc<Store>,
        limits: PathLimits,
    ) -> Result<(Arc<Channel>, Arc<Item>), SendFailure> {
        playlist.check()?;
        let Some(entry) = playlist.entries.first() else { return Err(SendFailure::Nothing) };
        let image = open(&store, entry, limits)?;
        let playlist = Mutex::new(playlist);
        let channel = Channel { options, store, limits, playlist, is_changed: AtomicBool::new(false) };
        Ok((Arc::new(channel), Item::new(image)))
    }

    /// Has the list read again at the next joint.
    pub(crate) fn reload(&self) {
        self.is_changed.store(true, Relaxed);
    }

    /// Opens each item when the one before it begins, until the list is over.
    pub(crate) async fn feed(self: Arc<Self>, first: Arc<Item>) {
        let Some(entry) = self.playlist.lock().entries.first().cloned() else { return };
        let like = Arc::clone(&first.image);
        let (mut item, mut place) = (first, ListPlace { index: 0, entry });
        let mut before = None;
        loop {
            item.wait_for_begin().await;
            if before.replace(Arc::clone(&item)).is_some_and(|before: Arc<Item>| before.has_failed()) {
                tokio::time::sleep(RETRY).await;
            }
            let Some((image, found)) = self.next(&like, place).await else {
                return item.follow(None);
            };
            place = found;
            let next = Item::new(image);
            item.follow(Some(Arc::clone(&next)));
            item = next;
        }
    }

    /// The next image and its place; none at the end of the list.
    async fn next(
        self: &Arc<Self>,
        like: &Arc<Image>,
        mut place: ListPlace,
    ) -> Option<(Arc<Image>, ListPlace)> {
        let mut failures = 0;
        loop {
            let (channel, like) = (Arc::clone(self), Arc::clone(like));
            let opened = tokio::task::spawn_blocking(move || channel.open_after(&like, place)).await;
            let (image, found) = opened.ok()??;
            place = found;
            if let Some(image) = image {
                wait_until(place.entry.not_before_s).await;
                return Some((image, place));
            }
            failures += 1;
            if failures >= self.playlist.lock().entries.len() {
                failures = 0;
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// The entry after a place, and its image unless that cannot be sent; none at the end of the list. Waits
    /// for storage.
    fn open_after(&self, like: &Image, place: ListPlace) -> Option<(Option<Arc<Image>>, ListPlace)> {
        if self.is_changed.swap(false, Relaxed) {
            self.read_again();
        }
        let (index, entry) = {
            let playlist = self.playlist.lock();
            let index = playlist.after(place.index, &place.entry)?;
            (index, playlist.entries[index].clone())
        };
        let image = open(&self.store, &entry, self.limits).and_then(|image| {
            let differs = difference(like, &image);
            differs.map_or(Ok(image), |differs| Err(entry.error(&differs)))
        });
        let image =
            image.inspect_err(|error| tracing::warn!(%error, "an item of a channel is left out")).ok();
        Some((image, ListPlace { index, entry }))
    }

    fn read_again(&self) {
        let ChannelOptions { name, assets, repeats, .. } = &self.options;
        match Playlist::load(assets, *repeats) {
            Ok(playlist) => {
                tracing::info!(channel = name, assets = playlist.entries.len(), "playlist read again");
                *self.playlist.lock() = playlist;
            }
            Err(error) => tracing::warn!(channel = name, %error, "the playlist is kept as it was"),
        }
    }
}

/// Waits until a time in seconds since 1970, if there is one.
pub(crate) async fn wait_until(unix_s: Option<u64>) {
    let at = unix_s.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    if let Some(wait) = at.and_then(|at| at.duration_since(SystemTime::now()).ok()) {
        tokio::time::sleep(wait).await;
    }
}

/// The image of an entry. Waits for storage.
fn open(store: &Store, entry: &Entry, limits: PathLimits) -> Result<Arc<Image>, PlaylistError> {
    // A pipe of this name must not be waited for.
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(&entry.path);
    let file = file.map_err(|error| entry.error(&error.to_string()))?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(entry.error("not a regular file"));
    }
    let name = entry.path.to_string_lossy();
    store.image(Arc::new(file), &name, limits).map_err(|error| entry.error(&error.to_string()))
}

/// Reason why an image cannot follow another in one stream: receivers know formats and parameters of the first.
fn difference(first: &Image, other: &Image) -> Option<String> {
    let (expected, found) = (formats(first), formats(other));
    let names = |formats: &[(String, Option<String>)]| {
        formats.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (expected_names, found_names) = (names(&expected), names(&found));
    if expected_names != found_names {
        return Some(format!("its tracks are {found_names}, and those of the channel {expected_names}"));
    }
    let differs = expected.iter().zip(&found).find(|(expected, found)| expected.1 != found.1)?;
    Some(format!(
        "track {} has not the parameters of the channel's first asset, which receivers know: encode both alike, or \
         send transport streams",
        differs.1.0
    ))
}

/// Formats of the streams of an image, with their parameters.
fn formats(image: &Image) -> Vec<(String, Option<String>)> {
    match &image.summary().description {
        Description::TransportStream(_) => vec![("MP2T".to_owned(), None)],
        Description::Movie(movie) => {
            movie.tracks.iter().map(|track| (track.map.clone(), track.parameters.clone())).collect()
        }
    }
}
