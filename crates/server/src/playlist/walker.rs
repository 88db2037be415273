//! Walks over a playlist: opens its assets one after another, each before it is needed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::OFlags;
use tokio::sync::Notify;
use wirepath_engine::catch_panic;
use wirepath_media::container::is_movie;
use wirepath_media::image::PathLimits;

use super::list::{Entry, Playlist, PlaylistError};
use super::unplayable::{Fault, UnplayableEntries};
use crate::formats::Formats;
use crate::images::{Image, Store};
use crate::played_as::PlayedAs;

/// Time until the next attempt after nothing of a whole list could be opened, or sent.
pub(crate) const RETRY: Duration = Duration::from_secs(5);

/// Playlist of a walk, and the form in which its assets are played.
pub(crate) struct WalkOptions {
    /// Name of the channel, in messages.
    pub(crate) name: String,
    /// Assets and playlists, in order.
    pub(crate) assets: Vec<PathBuf>,
    /// True if the first asset follows the last, whatever a list says.
    pub(crate) repeats: bool,
    /// True if transport streams may be played by their tracks.
    pub(crate) takes_tracks: bool,
}

/// Walk over the playlist of a channel.
pub(crate) struct PlaylistWalker {
    name: String,
    repeats: bool,
    /// Assets and playlists, in order.
    assets: Mutex<Vec<PathBuf>>,
    store: Arc<Store>,
    limits: PathLimits,
    played_as: PlayedAs,
    name_of: NameOf,
    playlist: Mutex<Playlist>,
    /// True from a request to read the list again until that is done.
    is_changed: AtomicBool,
    /// Notified by such a request.
    changed: Notify,
    /// Time of the next item in seconds since 1970, while that time is waited for; else 0.
    waits_until_s: AtomicU64,
    /// Place of the first item.
    first: ListPlace,
    unplayable: Arc<UnplayableEntries>,
}

/// Most missing assets that are logged at the start.
const MOST_MISSING: usize = 10;

/// Most assets that are read at the start to see whether transport streams and movies are mixed.
const MOST_READ: usize = 1000;

/// First bytes of an asset, which tell its container.
const HEAD_LENGTH: usize = 12;

/// Interval at which the wall clock is read while a time is waited for: it may be set meanwhile.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Name of the image of a file.
type NameOf = fn(&Path) -> String;

/// Place in a playlist.
#[derive(Clone)]
pub(crate) struct ListPlace {
    index: usize,
    pub(crate) entry: Entry,
}

impl PlaylistWalker {
    /// A walk over a list that was read, and the image of the first asset that can be played. Others are left out with a
    /// warning, now and in each round. Waits for storage.
    pub(crate) fn open(
        options: WalkOptions,
        playlist: Playlist,
        store: Arc<Store>,
        limits: PathLimits,
        name_of: NameOf,
    ) -> Result<(Arc<PlaylistWalker>, Arc<Image>), PlaylistError> {
        let played_as = played_as(options.takes_tracks, &playlist);
        if played_as == PlayedAs::Tracks && !playlist.is_demuxed {
            tracing::info!(
                channel = options.name,
                "transport streams of the channel play by their tracks: its list also has movies"
            );
        }
        let unplayable = UnplayableEntries::new(&options.name, &playlist);
        let (first, image) =
            first((&options.name, &unplayable), &playlist, &store, (limits, played_as), name_of)?;
        for (entry, reason) in playlist.missing_from(first.index).take(MOST_MISSING) {
            if unplayable.note_once(entry, Fault::LeftOut, &reason) {
                let error = entry.error(&reason);
                tracing::warn!(channel = options.name, %error, "an item of a channel is missing");
            }
        }
        let playlist = Mutex::new(playlist);
        let is_changed = AtomicBool::new(false);
        let changed = Notify::new();
        let WalkOptions { name, repeats, assets, .. } = options;
        let assets = Mutex::new(assets);
        let waits_until_s = AtomicU64::new(first.entry.not_before_s.unwrap_or(0));
        let walker = PlaylistWalker {
            name,
            repeats,
            assets,
            store,
            limits,
            played_as,
            name_of,
            playlist,
            is_changed,
            changed,
            waits_until_s,
            first,
            unplayable: Arc::new(unplayable),
        };
        Ok((Arc::new(walker), image))
    }

    /// The place of the first asset, and its earliest time in seconds since 1970.
    pub(crate) fn first_place(&self) -> (ListPlace, Option<u64>) {
        (self.first.clone(), self.first.entry.not_before_s)
    }

    /// Time until the time on the wall clock at which the next item begins; none if no such time is waited
    /// for.
    pub(crate) fn time_to_next(&self) -> Option<Duration> {
        time_until(self.waits_until_s.load(Relaxed))
    }

    /// Name of the channel.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Entries that cannot be played.
    pub(crate) fn unplayable(&self) -> &Arc<UnplayableEntries> {
        &self.unplayable
    }

    /// Replaces assets and playlists, which are read before the next asset is opened.
    pub(crate) fn replace(&self, assets: Vec<PathBuf>) {
        *self.assets.lock() = assets;
        self.reload();
    }

    /// Has the list read again before the next asset is opened, also if it is waited for.
    pub(crate) fn reload(&self) {
        self.is_changed.store(true, Relaxed);
        self.changed.notify_waiters();
    }

    /// The next image and its place; none at the end of the list.
    pub(crate) async fn next(
        self: &Arc<Self>,
        like: &Arc<Formats>,
        mut place: ListPlace,
    ) -> Option<(Arc<Image>, ListPlace)> {
        let mut failures = 0;
        loop {
            let (walker, like, before) = (Arc::clone(self), Arc::clone(like), place.clone());
            let opened = tokio::task::spawn_blocking(move || walker.open_after(&like, before)).await;
            let (image, found) = match opened {
                Ok(found) => found?,
                Err(error) if error.is_panic() => {
                    tracing::error!(
                        channel = self.name,
                        "the search for the next item of a channel panicked, which is a bug: report it with the \
                         panic's message; it is tried again"
                    );
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
                Err(_) => return None, // the runtime ends
            };
            if let Some(image) = image {
                self.waits_until_s.store(found.entry.not_before_s.unwrap_or(0), Relaxed);
                match self.wait_unless_changed(found.entry.not_before_s).await {
                    true => return Some((image, found)),
                    false => continue, // another list may have another asset here
                }
            }
            place = found;
            failures += 1;
            if failures >= self.length() {
                failures = 0;
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Number of entries of the list.
    pub(crate) fn length(&self) -> usize {
        self.playlist.lock().entries.len()
    }

    /// Waits until a time in seconds since 1970, if there is one; returns false if the list is to be read again
    /// before.
    async fn wait_unless_changed(&self, unix_s: Option<u64>) -> bool {
        let changed = self.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if unix_s.is_some_and(|at| time_until(at).is_some()) && self.is_changed.load(Relaxed) {
            return false;
        }
        tokio::select! {
            biased;
            () = wait_until(unix_s) => true,
            () = changed => false,
        }
    }

    /// The entry after a place, and its image unless that cannot be sent; none at the end of the list. Waits
    /// for storage.
    fn open_after(&self, like: &Formats, place: ListPlace) -> Option<(Option<Arc<Image>>, ListPlace)> {
        if self.is_changed.swap(false, Relaxed) {
            self.read_again();
        }
        let (index, entry) = {
            let playlist = self.playlist.lock();
            let index = playlist.after(place.index, &place.entry)?;
            (index, playlist.entries[index].clone())
        };
        // A channel goes on past an entry that a bug makes panic.
        let opened = catch_panic(|| {
            open(&self.store, &entry, (self.limits, self.played_as), self.name_of).and_then(|image| {
                let differs = like.difference(&formats(&image));
                differs.map_or(Ok(image), Err)
            })
        });
        let image = opened.unwrap_or_else(|message| {
            Err(format!("opening it panicked, which is a bug: report it with this message: {message}"))
        });
        let image = image.inspect_err(|reason| self.unplayable.log(&entry, Fault::LeftOut, reason));
        Some((image.ok(), ListPlace { index, entry }))
    }

    fn read_again(&self) {
        let (name, assets) = (&self.name, self.assets.lock().clone());
        match Playlist::load(&assets, self.repeats) {
            Ok(playlist) => {
                tracing::info!(channel = name, assets = playlist.entries.len(), "playlist read again");
                let before = std::mem::replace(&mut *self.playlist.lock(), playlist);
                let playlist = self.playlist.lock();
                self.unplayable.replace_list(&playlist);
                if before.is_demuxed != playlist.is_demuxed {
                    tracing::warn!(channel = name, "demux of the playlist has changed: restart to apply it");
                }
            }
            Err(error) => tracing::warn!(channel = name, %error, "the playlist is unchanged"),
        }
    }
}

/// Waits until a time in seconds since 1970, if there is one.
pub(crate) async fn wait_until(unix_s: Option<u64>) {
    let Some(at) = unix_s else { return };
    while let Some(rest) = time_until(at) {
        tokio::time::sleep(rest.min(CLOCK_INTERVAL)).await;
    }
}

/// Time until a time in seconds since 1970; none once that has come.
fn time_until(unix_s: u64) -> Option<Duration> {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(unix_s))?;
    at.duration_since(SystemTime::now()).ok().filter(|rest| !rest.is_zero())
}

/// The place and the image of the first entry that can be sent. Waits for storage.
fn first(
    (name, unplayable): (&str, &UnplayableEntries),
    playlist: &Playlist,
    store: &Store,
    form: (PathLimits, PlayedAs),
    name_of: NameOf,
) -> Result<(ListPlace, Arc<Image>), PlaylistError> {
    let mut failure = None;
    for (index, entry) in playlist.entries.iter().enumerate() {
        match open(store, entry, form, name_of) {
            Ok(image) => {
                if let Some(error) = failure {
                    tracing::warn!(
                        channel = name, %error, left_out = index,
                        "the first items of a channel are left out"
                    );
                }
                return Ok((ListPlace { index, entry: entry.clone() }, image));
            }
            Err(reason) => match failure {
                None => {
                    unplayable.note_once(entry, Fault::LeftOut, &reason);
                    failure = Some(entry.error(&reason));
                }
                Some(_) => unplayable.note(entry, Fault::LeftOut),
            },
        }
    }
    let several = |error| match playlist.entries.len() {
        1 => error,
        count => PlaylistError::NonePlayable(count, Box::new(error)),
    };
    Err(failure.map_or(PlaylistError::Nothing, several))
}

/// Opens a file of a list. A pipe of this name is not waited for. Waits for storage.
pub(crate) fn open_asset(path: &Path) -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).custom_flags(nonblocking).open(path)
}

/// Form in which a channel plays transport streams: by their tracks if a list asks for it, or if there are movies
/// among them and tracks can be taken. Waits for storage.
fn played_as(takes_tracks: bool, playlist: &Playlist) -> PlayedAs {
    match playlist.is_demuxed || (takes_tracks && is_mixed(playlist)) {
        true => PlayedAs::Tracks,
        false => PlayedAs::Stored,
    }
}

/// Returns whether there are both movies and other files among the first assets. Waits for storage.
fn is_mixed(playlist: &Playlist) -> bool {
    let (mut has_movies, mut has_others) = (false, false);
    for entry in playlist.entries.iter().take(MOST_READ) {
        let mut head = [0; HEAD_LENGTH];
        let Ok(file) = open_asset(&entry.path) else { continue };
        if file.read_exact_at(&mut head, 0).is_err() {
            continue;
        }
        let is_movie = is_movie(&head);
        has_movies |= is_movie;
        has_others |= !is_movie;
        if has_movies && has_others {
            return true;
        }
    }
    false
}

/// The image of an entry, or the reason why there is none. Waits for storage.
fn open(
    store: &Store,
    entry: &Entry,
    (limits, played_as): (PathLimits, PlayedAs),
    name_of: NameOf,
) -> Result<Arc<Image>, String> {
    let file = open_asset(&entry.path).map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("not a regular file".to_owned());
    }
    let name = name_of(&entry.path);
    let image = store.image_for(None, Arc::new(file), &name, limits, played_as);
    image.map_err(|error| error.to_string())
}

/// Formats of the tracks of an image.
pub(crate) fn formats(image: &Image) -> Formats {
    Formats::of(&image.summary().description)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wirepath_engine::{BlockingPool, Priority};
    use wirepath_media::ts::synthetic::Sample;

    use super::*;
    use crate::images::{ImageFolder, ImagePolicy, StoreOptions};

    /// Promise: A channel goes on past an asset whose opening panics.
    #[tokio::test]
    async fn an_asset_that_panics_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let assets = ["first.ts", "bad.ts", "last.ts"].map(|name| folder.path().join(name));
        for asset in &assets {
            fs::write(asset, Sample { packets: 2000, ..Sample::default() }.stream().bytes).unwrap();
        }
        let cache = ImageFolder::open(&folder.path().join("cache"), 1 << 30).unwrap();
        let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let store = StoreOptions { images: ImagePolicy::None, ..StoreOptions::new(readers, 1) };
        let store = Store::start(cache, store).unwrap();
        let name_of = |path: &Path| {
            assert!(!path.ends_with("bad.ts"), "on purpose");
            path.display().to_string()
        };
        let playlist = Playlist::load(&assets, true).unwrap();
        let limits = store.usual_limits();
        let (name, assets) = ("news".to_owned(), assets.to_vec());
        let options = WalkOptions { name, assets, repeats: true, takes_tracks: true };
        let (walker, first) = PlaylistWalker::open(options, playlist, store, limits, name_of).unwrap();
        let (place, _) = walker.first_place();
        let like = Arc::new(formats(&first));
        let next = tokio::time::timeout(Duration::from_secs(20), walker.next(&like, place)).await;
        let (image, place) = next.expect("it is not passed over").expect("it repeats");
        assert!(image.name().ends_with("last.ts") && place.index == 2, "{}", image.name());
        assert_eq!(walker.unplayable().left_out(), 1);
    }

    /// Promise: A list of movies and transport streams plays by tracks, unless a destination takes transport streams only.
    #[test]
    fn mixed_lists_play_by_tracks() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in
            [("a.ts", &[0x47; 188][..]), ("b.mp4", b"\0\0\0\x10ftypisom\0\0\0\0"), ("short", b"x")]
        {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let form = |names: &[&str], is_demuxed, takes_tracks| {
            let assets: Vec<PathBuf> = names.iter().map(|name| folder.path().join(name)).collect();
            let playlist = Playlist { is_demuxed, ..Playlist::load(&assets, true).unwrap() };
            played_as(takes_tracks, &playlist)
        };
        assert_eq!(form(&["gone", "short", "b.mp4", "a.ts"], false, true), PlayedAs::Tracks);
        assert_eq!(form(&["a.ts", "b.mp4"], false, false), PlayedAs::Stored);
        assert_eq!(form(&["a.ts", "short"], false, true), PlayedAs::Stored);
        assert_eq!(form(&["a.ts"], true, true), PlayedAs::Tracks);
    }
}
