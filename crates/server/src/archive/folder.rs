//! Folder of an archive. Its names are read again when a folder changes; durations of recordings are read on
//! request.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value as Json, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use wirepath_http::AssetPath;
use wirepath_media::image::Identity;
use wirepath_net::LogLimit;

use super::ArchiveOptions;
use super::first_search::FirstSearch;
use super::folder_tree::{FolderTree, TreeCheck, TreeLimits};
use super::name_pattern::NamePattern;
use super::recordings::{Recording, Recordings};
use crate::formats::Formats;
use crate::images::{Follow, Store, StoreError};
use crate::library::{Asset, FindError, Library};
use crate::played_as::PlayedAs;

/// Most names and folders of an archive.
const LIMITS: TreeLimits = TreeLimits { names: 1_000_000, folders: 50_000 };

/// Longest time that a request waits for another one's check of the folders, if they were read before.
const CHECK_WAIT: Duration = Duration::from_millis(100);

/// Longest wait of a request for the first check.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// Time after the last change of the newest recording, in seconds, from which it is complete if it cannot be followed.
const COMPLETE_AFTER_S: i64 = 10;

/// Most pages of recordings that are made at a time: each examines up to a thousand files.
pub(super) const LISTINGS: usize = 4;

/// Most log lines a second about recordings that cannot be examined, since clients cause them.
const LINES_PER_SECOND: u32 = 1;

/// Most recordings that are listed as left out.
const MOST_LEFT_OUT: usize = 100;

/// Folder of an archive.
pub(crate) struct ArchiveFolder {
    path: String,
    asset_path: AssetPath,
    pattern: NamePattern,
    /// The served folder that it is in: no other one is kept open by sessions that play the archive.
    library: Library,
    store: Arc<Store>,
    /// Form in which its transport streams are played.
    played_as: PlayedAs,
    /// The same archive with transport streams by their tracks, once that was requested.
    by_tracks: OnceLock<Option<Arc<ArchiveFolder>>>,
    /// Held during a check of the folders, which may take long.
    tree: Mutex<FolderTree>,
    /// The archive at the last check; none until it is read, and after it could not be read.
    known: Mutex<Option<Known>>,
    /// Lengths and formats of examined recordings.
    lengths: Examined<Length>,
    formats: Examined<Arc<Formats>>,
    /// Recordings that cannot be played with the others, and the reasons.
    left_out: Mutex<HashMap<Arc<[u8]>, String>>,
    first_search: Mutex<FirstSearch>,
    /// Permits of pages that are being made.
    listings: Semaphore,
    log: LogLimit,
}

/// Values of examined recordings, by name, each of a version of the file.
type Examined<T> = Mutex<HashMap<Arc<[u8]>, (Identity, T)>>;

/// Length of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Duration in microseconds.
    Known(u64),
    /// The file does not tell its duration, or cannot be examined at present.
    Unknown,
    /// The recording cannot be played.
    NotPlayable,
}

/// Open file of a recording.
pub(super) struct RecordingFile {
    pub(super) asset: Asset,
    /// True if a recorder appends to it, or has just finished it, and may go on with another one.
    pub(super) is_live: bool,
}

/// An archive at a check of its folders.
#[derive(Clone)]
struct Known {
    recordings: Arc<Recordings>,
    folders: usize,
    reads: u64,
}

impl ArchiveFolder {
    /// An archive in a library; none if its path is not a valid path of an archive.
    pub(crate) fn new(
        options: ArchiveOptions,
        library: &Library,
        store: Arc<Store>,
    ) -> Option<Arc<ArchiveFolder>> {
        ArchiveFolder::played_as(options, library, store, PlayedAs::Stored)
    }

    fn played_as(
        options: ArchiveOptions,
        library: &Library,
        store: Arc<Store>,
        played_as: PlayedAs,
    ) -> Option<Arc<ArchiveFolder>> {
        let ArchiveOptions { path, pattern } = options;
        let asset_path = AssetPath::from_decoded(path.as_bytes()).ok()?;
        let library = library.around(&asset_path);
        let tree = FolderTree::new(&asset_path, &pattern, LIMITS)?;
        Some(Arc::new(ArchiveFolder {
            path,
            asset_path,
            pattern,
            library,
            store,
            played_as,
            by_tracks: OnceLock::new(),
            tree: Mutex::new(tree),
            known: Mutex::default(),
            lengths: Mutex::default(),
            formats: Mutex::default(),
            left_out: Mutex::default(),
            first_search: Mutex::default(),
            listings: Semaphore::new(LISTINGS),
            log: LogLimit::new(LINES_PER_SECOND),
        }))
    }

    /// The same archive, whose transport streams play by their tracks. It has its own notes about recordings, since
    /// other ones can be played and follow each other.
    pub(crate) fn by_tracks(&self) -> Option<Arc<ArchiveFolder>> {
        let by_tracks = self.by_tracks.get_or_init(|| {
            let options = ArchiveOptions { path: self.path.clone(), pattern: self.pattern.clone() };
            ArchiveFolder::played_as(options, &self.library, Arc::clone(&self.store), PlayedAs::Tracks)
        });
        by_tracks.clone()
    }

    /// Form in which its transport streams are played.
    pub(super) fn form(&self) -> PlayedAs {
        self.played_as
    }

    /// Returns whether an archive of these options in this library would be the same.
    pub(crate) fn is_like(&self, options: &ArchiveOptions, library: &Library) -> bool {
        self.path == options.path
            && self.pattern == options.pattern
            && self.library.is_like(&library.around(&self.asset_path))
    }

    /// Path in URLs, not encoded.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The store of its images.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The recordings of the folder as it is now, or as it was at the last check if another thread needs long
    /// to check it; an error if that is the first check. Waits for storage.
    pub(crate) fn recordings(&self) -> Result<Arc<Recordings>, FindError> {
        let mut tree = match self.tree.try_lock_for(CHECK_WAIT) {
            Some(tree) => tree,
            None => {
                let known = self.known.lock().clone();
                if let Some(known) = known {
                    return Ok(known.recordings);
                }
                self.tree.try_lock_for(FIRST_WAIT).ok_or(FindError::Unread)?
            }
        };
        let note = |path: &AssetPath, error: FindError| self.note_unread(path, error);
        let (library, pattern) = (&self.library, &self.pattern);
        if let Err(error) = tree.check(&TreeCheck { library, pattern, now_s: now_s(), note: &note }) {
            *self.known.lock() = None;
            return Err(error);
        }
        let changed = tree.changed_recordings().map(Arc::new);
        if let Some(changed) = &changed {
            self.forget_gone(changed);
        }
        let (folders, reads) = (tree.folders(), tree.reads());
        let mut known = self.known.lock();
        let last = known.take().map(|known| known.recordings);
        let recordings = changed.or(last).unwrap_or_default();
        *known = Some(Known { recordings: Arc::clone(&recordings), folders, reads });
        Ok(recordings)
    }

    /// Opens a recording; none while it is being written and cannot be followed, which is true of the newest one only.
    /// Waits for storage.
    pub(super) fn open(
        &self,
        recording: &Recording,
        recordings: &Recordings,
    ) -> Result<Option<RecordingFile>, FindError> {
        let path = match self.path.is_empty() {
            true => recording.name.to_vec(),
            false => [self.path.as_bytes(), &recording.name].join(&b'/'),
        };
        let path = AssetPath::from_decoded(&path).map_err(|_| FindError::NotFound)?;
        let asset = self.library.find_file(&path)?;
        if recordings.all().last() != Some(recording) {
            return Ok(Some(RecordingFile { asset, is_live: false }));
        }
        let is_live = match self.store.is_recording(&asset.file, self.played_as, Follow::Recent) {
            Ok(is_live) => is_live,
            Err(StoreError::NotPlayable(_)) => false, // its beginning may not be written yet
            Err(error) => {
                self.note_failure(recording, &error);
                false
            }
        };
        let modified_s = asset.version.identity.mtime_ns / 1_000_000_000;
        let age_s = i64::try_from(now_s()).unwrap_or(i64::MAX).saturating_sub(modified_s);
        Ok((is_live || age_s >= COMPLETE_AFTER_S).then_some(RecordingFile { asset, is_live }))
    }

    /// Length of a recording. Waits for storage.
    pub(super) fn length(&self, recording: &Recording, recordings: &Recordings) -> Result<Length, FindError> {
        let RecordingFile { asset, is_live } =
            self.open(recording, recordings)?.ok_or(FindError::NotFound)?;
        if is_live {
            return Ok(Length::Unknown);
        }
        let identity = asset.version.identity;
        let known = self.lengths.lock().get(&recording.name).filter(|(known, _)| *known == identity).copied();
        let duration_us = match known {
            // Its image may be finished by now, which has the duration.
            Some((_, Length::Unknown)) => self.store.finished_duration_us(&asset.file),
            Some((_, length)) => return Ok(length),
            None => self.store.duration_us(&asset.file),
        };
        let length = match duration_us {
            Ok(duration_us) => duration_us.map_or(Length::Unknown, Length::Known),
            Err(StoreError::NotPlayable(why)) => {
                self.leave_out(recording, &why);
                Length::NotPlayable
            }
            Err(error) => {
                self.note_failure(recording, &error);
                return Ok(Length::Unknown);
            }
        };
        self.lengths.lock().insert(recording.name.clone(), (identity, length));
        Ok(length)
    }

    /// The search for the first recording, once it is not used by another request; none if that takes longer
    /// than `limit`.
    pub(super) fn first_search(&self, limit: Duration) -> Option<MutexGuard<'_, FirstSearch>> {
        self.first_search.try_lock_for(limit)
    }

    /// Notes that this version of a recording cannot be played, so that it is not examined again.
    pub(super) fn mark_unplayable(&self, recording: &Recording, identity: Identity, why: &str) {
        self.leave_out(recording, why);
        self.lengths.lock().insert(recording.name.clone(), (identity, Length::NotPlayable));
    }

    /// Returns whether this version of a recording is known not to be playable.
    pub(super) fn is_unplayable(&self, recording: &Recording, identity: Identity) -> bool {
        self.lengths.lock().get(&recording.name) == Some(&(identity, Length::NotPlayable))
    }

    /// Logs that a recording cannot be opened or examined at present.
    pub(super) fn note_failure(&self, recording: &Recording, error: &dyn std::fmt::Display) {
        if let Some(suppressed) = self.log.pass(Instant::now()) {
            let recording = self.name_of(recording);
            tracing::warn!(%recording, %error, suppressed, "a recording of an archive cannot be read now");
        }
    }

    /// Logs that a folder of the archive cannot be read.
    fn note_unread(&self, path: &AssetPath, error: FindError) {
        if let Some(suppressed) = self.log.pass(Instant::now()) {
            let folder = String::from_utf8_lossy(path.as_bytes());
            tracing::warn!(?folder, %error, suppressed, "a folder of an archive cannot be read");
        }
    }

    /// Notes that a recording is played.
    pub(super) fn note_played(&self, recording: &Recording) {
        self.left_out.lock().remove(&recording.name);
    }

    /// Formats of the tracks of a recording; none if it cannot be played, at present or at all. Waits for
    /// storage.
    pub(super) fn formats(
        &self,
        recording: &Recording,
        recordings: &Recordings,
    ) -> Result<Option<Arc<Formats>>, FindError> {
        let Some(RecordingFile { asset, .. }) = self.open(recording, recordings)? else { return Ok(None) };
        let identity = asset.version.identity;
        if self.is_unplayable(recording, identity) {
            return Ok(None);
        }
        let known = self.formats.lock().get(&recording.name).filter(|(known, _)| *known == identity).cloned();
        if let Some((_, formats)) = known {
            return Ok(Some(formats));
        }
        let formats = match self.store.description(&asset.file, self.played_as) {
            Ok(description) => Formats::of(&description),
            Err(StoreError::NotPlayable(why)) => {
                self.mark_unplayable(recording, identity, &why);
                return Ok(None);
            }
            Err(error) => {
                self.note_failure(recording, &error);
                return Ok(None);
            }
        };
        let mut all = self.formats.lock();
        // Recordings of one camera share their formats.
        let equal =
            all.values().next().filter(|(_, other)| **other == formats).map(|(_, other)| Arc::clone(other));
        let formats = equal.unwrap_or_else(|| Arc::new(formats));
        all.insert(recording.name.clone(), (identity, Arc::clone(&formats)));
        Ok(Some(formats))
    }

    /// Permits one page of recordings to be made; none if too many are being made.
    pub(crate) fn permit_listing(&self) -> Option<SemaphorePermit<'_>> {
        self.listings.try_acquire().ok()
    }

    /// Notes that a recording is not played, and logs it once.
    pub(crate) fn leave_out(&self, recording: &Recording, why: &str) {
        let mut left_out = self.left_out.lock();
        if left_out.len() < MOST_LEFT_OUT && left_out.insert(recording.name.clone(), why.to_owned()).is_none()
        {
            tracing::warn!(recording = %self.name_of(recording), why, "a recording of an archive is left out");
        }
    }

    /// Name of a recording for people, with the archive's path.
    pub(crate) fn name_of(&self, recording: &Recording) -> String {
        let name = String::from_utf8_lossy(&recording.name);
        if self.path.is_empty() { name.into_owned() } else { format!("{}/{name}", self.path) }
    }

    /// The archive for `/api/status`, without waiting for storage.
    pub(crate) fn json(&self) -> Json {
        let known = self.known.lock().clone();
        let left_out_by_tracks = self.by_tracks.get().and_then(Option::as_ref);
        let left_out_by_tracks = left_out_by_tracks.map(|folder| folder.left_out_json());
        json!({
            "path": self.path,
            "pattern": self.pattern.to_string(),
            "recordings": known.as_ref().map(|known| known.recordings.all().len()),
            "folders": known.as_ref().map(|known| known.folders),
            "folder_reads": known.as_ref().map(|known| known.reads),
            "left_out": self.left_out_json(),
            "left_out_by_tracks": left_out_by_tracks,
        })
    }

    /// Recordings that are left out, and the reasons.
    fn left_out_json(&self) -> Json {
        let left_out = self.left_out.lock();
        left_out
            .iter()
            .map(|(name, why)| json!({"name": String::from_utf8_lossy(name), "reason": why}))
            .collect()
    }

    /// Drops notes about recordings that no longer exist.
    fn forget_gone(&self, recordings: &Recordings) {
        let (mut lengths, mut left_out) = (self.lengths.lock(), self.left_out.lock());
        let mut formats = self.formats.lock();
        if lengths.is_empty() && left_out.is_empty() && formats.is_empty() {
            return;
        }
        let names: HashSet<&[u8]> = recordings.all().iter().map(|recording| &*recording.name).collect();
        formats.retain(|name, _| names.contains(&**name));
        lengths.retain(|name, _| names.contains(&**name));
        left_out.retain(|name, _| names.contains(&**name));
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wirepath_engine::{BlockingPool, Priority};

    use super::super::TimeZone;
    use super::*;
    use crate::images::ImageFolder;

    /// Promise: While slow storage is read, other requests for an archive get the recordings of the last check.
    #[test]
    fn a_slow_check_delays_no_other_request() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("media/cam")).unwrap();
        fs::write(home.path().join("media/cam/1795428000.ts"), "").unwrap();
        let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let store =
            Store::new(ImageFolder::open(&home.path().join("cache"), 1 << 20).unwrap(), readers, 1).unwrap();
        let library = Arc::new(Library::open(&[home.path().join("media")]).unwrap());
        let pattern = NamePattern::parse("%s", TimeZone::Utc).unwrap();
        let folder = ArchiveFolder::new(ArchiveOptions { path: "cam".to_owned(), pattern }, &library, store);
        let folder = folder.unwrap();

        let check = folder.tree.lock();
        let (sender, first) = std::sync::mpsc::channel();
        let waiting = Arc::clone(&folder);
        std::thread::spawn(move || sender.send(waiting.recordings().unwrap()));
        assert!(first.recv_timeout(2 * CHECK_WAIT).is_err(), "nothing is known yet");
        assert_eq!(folder.json()["recordings"], Json::Null);
        drop(check);
        assert_eq!(first.recv().unwrap().all().len(), 1);

        let check = folder.tree.lock();
        fs::write(home.path().join("media/cam/1795428010.ts"), "").unwrap();
        assert_eq!(folder.recordings().unwrap().all().len(), 1, "as at the last check");
        assert_eq!(folder.json()["recordings"], 1);
        drop(check);
        assert_eq!(folder.recordings().unwrap().all().len(), 2);
    }
}
