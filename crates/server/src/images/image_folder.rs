//! The folder of wire images, with a budget: the least recently used images are removed first, never one in
//! use.
//!
//! Several processes may share a folder. A user of an image holds a shared `flock` on it, a writer an
//! exclusive lock on a file with another name. So a file without a lock may be removed: an image when space
//! is needed, an unfinished file when its process was killed. The modification time of an image is the time
//! of its last use.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use parking_lot::Mutex;
use rustix::fs::{Access, FallocateFlags, OFlags, access, fallocate, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::key::Key;
use super::read::is_lost;

/// Ending of finished images.
const IMAGE: &str = "wpi";
/// File extension of images that are being written.
const PART: &str = "part";

/// Additional space reserved at a time for an unfinished file that becomes longer than expected.
const EXTENSION: u64 = 4 << 20;

/// The folder cannot be used, or an image does not fit.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder cannot be made, read or written to.
    #[error("cannot use the cache folder {folder}: {1}; name another with --cache DIR", folder = .0.display())]
    Io(PathBuf, Arc<io::Error>),
    /// There is not enough space within the budget.
    #[error(
        "an image of {needed} bytes does not fit the cache in {}: {in_use} of its budget of {budget} bytes are in use; \
         raise --cache-size",
        folder.display()
    )]
    Budget {
        /// The folder.
        folder: PathBuf,
        /// Bytes of the image.
        needed: u64,
        /// Bytes that cannot be freed.
        in_use: u64,
        /// The budget in bytes.
        budget: u64,
    },
    /// The disk is full, or a quota is used up.
    #[error(
        "no space left for an image of {1} bytes in the cache folder {folder} (the disk is full, or a quota is used up); make \
         room there, lower --cache-size so that others have it, or name a cache folder on another disk",
        folder = .0.display()
    )]
    DiskFull(PathBuf, u64),
}

/// A folder of wire images.
#[derive(Debug)]
pub struct ImageFolder {
    path: PathBuf,
    budget: u64,
    /// Lock held while room is made, so that two images do not both count on the same room.
    making_room: Mutex<()>,
    used: Arc<UsedBytes>,
}

/// Bytes that the images take, for readers that must not access storage.
#[derive(Debug, Default)]
struct UsedBytes {
    bytes: AtomicU64,
    /// Lock held while the folder is read, so that the latest sum is stored.
    refreshing: Mutex<()>,
}

impl ImageFolder {
    /// Creates the folder if it does not exist, and removes unfinished files of killed processes. The images
    /// in it may take `budget` bytes.
    pub fn open(folder: &Path, budget: u64) -> Result<ImageFolder, FolderError> {
        let (making_room, used) = (Mutex::default(), Arc::<UsedBytes>::default());
        let images = ImageFolder { path: folder.to_owned(), budget, making_room, used };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .and_then(|()| images.remove_leftovers())
            .and_then(|()| images.used.refresh(folder))
            .map_err(|source| images.error(source))?;
        if let Err(error) = access(folder, Access::WRITE_OK) {
            // Packed images can be played.
            tracing::warn!(
                folder = %folder.display(), error = %io::Error::from(error),
                "the cache folder cannot be written to: media that is not packed yet can be downloaded, but not played"
            );
        }
        Ok(images)
    }

    /// Path of the finished image of this name, which may be missing.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.{IMAGE}"))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The budget in bytes.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Bytes that the images take, including unfinished ones. Images of other processes count as of the last
    /// change by this process. Never accesses storage, which may hang.
    pub fn used(&self) -> u64 {
        self.used.bytes.load(Relaxed)
    }

    /// Opens a finished image and marks it as used, now and for as long as the file is open.
    pub fn find(&self, name: &str) -> Result<Option<File>, FolderError> {
        let open = || -> io::Result<Option<File>> {
            let file = match open_without_atime(&self.path_of(name)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            match file.try_lock_shared() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None), // it is being removed
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if file.metadata()?.nlink() == 0 {
                return Ok(None); // it was removed between being opened and locked
            }
            // Images in a folder without write permission are still served; then the oldest file counts as
            // the least recently used.
            if let Err(error) = file.set_modified(SystemTime::now()) {
                tracing::debug!(%error, image = name, "setting the modification time failed");
            }
            Ok(Some(file))
        };
        match open() {
            Err(error) if is_lost(&error) => {
                tracing::warn!(%error, image = name, "the disk cannot read an image; it is packed again");
                Ok(None)
            }
            result => result.map_err(|source| self.error(source)),
        }
    }

    /// Fails if an image of `length` bytes exceeds the budget, even if no other is kept.
    pub fn check_length(&self, length: u64) -> Result<(), FolderError> {
        if length <= self.budget {
            return Ok(());
        }
        let (folder, budget) = (self.path.clone(), self.budget);
        Err(FolderError::Budget { folder, needed: length, in_use: 0, budget })
    }

    /// Begins an image of at most `length` bytes: makes room for it, and reserves the space.
    pub fn begin(&self, name: &str, length: u64) -> Result<Draft, FolderError> {
        self.begin_with(name, length, reserve)
    }

    /// Begins an index of about `length` bytes, which may be [extended](ImageFolder::extend). Indexes are
    /// small and many are begun at once: so room is made only when the budget is used up, and the folder is
    /// not read.
    pub fn begin_index(&self, name: &str, length: u64) -> Result<Draft, FolderError> {
        if self.used() + length > self.budget {
            return self.begin(name, length);
        }
        let mut draft = self.create(name).map_err(|source| self.error(source))?;
        self.used.bytes.fetch_add(length, Relaxed);
        draft.counted = Some(length);
        draft.reserved = length;
        Ok(draft)
    }

    /// Makes room for an unfinished file that needs `length` bytes, possibly more than when it was begun.
    pub fn extend(&self, draft: &mut Draft, length: u64) -> Result<(), FolderError> {
        if length <= draft.reserved {
            return Ok(());
        }
        let rounded = length.next_multiple_of(EXTENSION);
        let has_room = self.used() + (rounded - draft.reserved) <= self.budget;
        let reserved = if has_room { rounded } else { length };
        let more = reserved - draft.reserved;
        if !has_room {
            let _alone = self.making_room.lock();
            self.make_room(more)?;
            self.used.refresh_or_log(&self.path);
        }
        self.used.bytes.fetch_add(more, Relaxed);
        draft.reserved = reserved;
        draft.counted = draft.counted.map(|counted| counted + more);
        Ok(())
    }

    /// Removes an image whose file is `damaged`. If another file has its name by now, that file stays. Users
    /// of the image keep their file.
    pub fn remove(&self, name: &str, damaged: &File) -> Result<(), FolderError> {
        let path = self.path_of(name);
        let remove = || -> io::Result<()> {
            let (there, found) = (fs::symlink_metadata(&path)?, damaged.metadata()?);
            if (there.dev(), there.ino()) == (found.dev(), found.ino()) {
                fs::remove_file(&path)?;
            }
            Ok(())
        };
        let removed = remove();
        self.used.refresh_or_log(&self.path);
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.error(error)),
            _ => Ok(()),
        }
    }

    /// Begins an image. If the disk is full before the budget is used up, images are removed as for the
    /// budget.
    fn begin_with(
        &self,
        name: &str,
        length: u64,
        reserve: impl Fn(&File, u64) -> io::Result<()>,
    ) -> Result<Draft, FolderError> {
        let _alone = self.making_room.lock();
        self.make_room(length)?;
        let mut draft = self.create(name).map_err(|source| self.error(source))?;
        draft.reserved = length;
        loop {
            match reserve(&draft.file, length) {
                Ok(()) => break,
                Err(error) if !is_full(&error) => return Err(self.error(error)),
                Err(_) if self.remove_least_recently_used()? => {}
                Err(_) => return Err(self.disk_full(length)),
            }
        }
        self.used.refresh_or_log(&self.path);
        Ok(draft)
    }

    /// The error for an image of `needed` bytes for which the disk has no space, at the start or during
    /// writing.
    pub fn disk_full(&self, needed: u64) -> FolderError {
        FolderError::DiskFull(self.path.clone(), needed)
    }

    fn error(&self, source: io::Error) -> FolderError {
        FolderError::Io(self.path.clone(), source.into())
    }

    fn create(&self, name: &str) -> io::Result<Draft> {
        let part = self.path.join(format!("{name}.{:016x}.{PART}", getrandom::u64()?));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&part)?;
        skip_access_times(&file);
        let used = Arc::clone(&self.used);
        let file = Arc::new(file);
        let image = self.path_of(name);
        let draft = Draft { file, part, image, published: false, used, counted: None, reserved: 0 };
        if geteuid().is_root() {
            // Root may pack ahead of time for a server that runs as the owner of this folder.
            let owner = fs::metadata(&self.path)?;
            fchown(&draft.file, Some(owner.uid()), Some(owner.gid()))?;
        }
        draft.file.lock()?;
        Ok(draft)
    }

    /// Removes images that nobody uses, least recently used first, until `needed` bytes fit the budget.
    fn make_room(&self, needed: u64) -> Result<(), FolderError> {
        let entries = self.entries()?;
        let mut total = taken_by(&entries);
        for entry in entries.iter().filter(|entry| entry.finished) {
            if total + needed <= self.budget {
                break;
            }
            if remove_unused(&entry.path) {
                tracing::info!(image = %entry.path.display(), "removed to make room");
                total -= entry.length;
            }
        }
        if total + needed > self.budget {
            self.used.refresh_or_log(&self.path);
            let folder = self.path.clone();
            return Err(FolderError::Budget { folder, needed, in_use: total, budget: self.budget });
        }
        Ok(())
    }

    /// Removes the least recently used image without users; returns whether there was one.
    fn remove_least_recently_used(&self) -> Result<bool, FolderError> {
        let entries = self.entries()?;
        let removed = entries.iter().find(|entry| entry.finished && remove_unused(&entry.path));
        if let Some(entry) = removed {
            tracing::info!(image = %entry.path.display(), "removed because the disk is full");
        }
        Ok(removed.is_some())
    }

    /// All images, the least recently used first.
    fn entries(&self) -> Result<Vec<Entry>, FolderError> {
        let mut entries = entries(&self.path).map_err(|source| self.error(source))?;
        entries.sort_by_key(|entry| entry.used);
        Ok(entries)
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        for entry in entries(&self.path)?.iter().filter(|entry| !entry.finished) {
            if remove_unused(&entry.path) {
                tracing::info!(file = %entry.path.display(), "removed an unfinished image of an earlier process");
            }
        }
        Ok(())
    }
}

/// The images of this folder, finished or not. Other files are ignored.
fn entries(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for item in fs::read_dir(folder)? {
        let item = item?;
        let Some(finished) = item.file_name().to_str().and_then(is_finished) else { continue };
        let path = item.path();
        match fs::symlink_metadata(&path) {
            Ok(facts) if facts.is_file() => {
                // An unfinished image counts with its reserved space.
                let length = facts.len().max(facts.blocks() * 512);
                entries.push(Entry { path, length, used: facts.modified()?, finished });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {} // removed by another process
            Err(error) => return Err(error),
        }
    }
    Ok(entries)
}

/// Returns whether a file of this name is a finished image; none if it is not an image. Only images are ever
/// removed: in a shared folder, `film.mkv.part` may be somebody's download.
fn is_finished(name: &str) -> Option<bool> {
    let (stem, ending) = name.rsplit_once('.')?;
    if ending == IMAGE {
        return Key::is_name(stem).then_some(true);
    }
    let (stem, random) = stem.rsplit_once('.').filter(|_| ending == PART)?;
    let is_random =
        random.len() == 16 && random.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_random && Key::is_name(stem)).then_some(false)
}

impl UsedBytes {
    fn refresh(&self, folder: &Path) -> io::Result<()> {
        let _alone = self.refreshing.lock();
        self.bytes.store(taken_by(&entries(folder)?), Relaxed);
        Ok(())
    }

    /// Replaces `before` bytes by `after` bytes in the sum.
    fn count(&self, before: u64, after: u64) {
        // If the folder was read meanwhile, the next reading corrects the sum.
        let count = |bytes: u64| Some(bytes.saturating_sub(before).saturating_add(after));
        let _ = self.bytes.fetch_update(Relaxed, Relaxed, count);
    }

    fn refresh_or_log(&self, folder: &Path) {
        if let Err(error) = self.refresh(folder) {
            tracing::debug!(%error, "reading the size of the images failed");
        }
    }
}

struct Entry {
    path: PathBuf,
    length: u64,
    used: SystemTime,
    finished: bool,
}

fn taken_by(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| entry.length).sum()
}

/// An image that is being written. It is removed if dropped unfinished.
#[derive(Debug)]
pub struct Draft {
    file: Arc<File>,
    part: PathBuf,
    image: PathBuf,
    published: bool,
    used: Arc<UsedBytes>,
    /// Bytes counted for it, except in sums from reading the folder.
    counted: Option<u64>,
    /// Bytes that there is room for.
    reserved: u64,
}

impl Draft {
    /// The file to write to.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Cuts the file to `length` bytes, syncs it to the disk, and gives it its final name, replacing an older
    /// image. The lock becomes the shared lock of a user.
    ///
    /// # Errors
    ///
    /// Errors of the calls. Then there is no image, or the older one.
    pub fn publish(mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.sync_all()?;
        self.file.lock_shared()?;
        fs::rename(&self.part, &self.image)?;
        self.published = true;
        File::open(folder_of(&self.image))?.sync_all()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published
            && let Err(error) = fs::remove_file(&self.part)
        {
            tracing::warn!(%error, file = %self.part.display(), "removing an unfinished image failed");
        }
        if let Some(counted) = self.counted {
            let length = self.file.metadata().map_or(0, |facts| facts.len());
            return self.used.count(counted, if self.published { length } else { 0 });
        }
        self.used.refresh_or_log(folder_of(&self.image));
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Returns whether the disk is full, or a quota used up.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Opens a file so that reading does not update its access time, if permitted.
fn open_without_atime(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    skip_access_times(&file);
    Ok(file)
}

/// Turns off updates of the access time by reading, which the kernel would check at each `sendfile`. Only the
/// owner of a file may do that; for others the updates stay on.
fn skip_access_times(file: &File) {
    let set = fcntl_getfl(file).and_then(|flags| fcntl_setfl(file, flags | OFlags::NOATIME));
    if let Err(error) = set {
        tracing::debug!(%error, "times of access are updated");
    }
}

/// Reserves disk space, so that a full disk is noticed before anything is written. If the file system cannot
/// reserve, only sets the length.
fn reserve(file: &File, length: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, length) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(length),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a file that has no lock; returns whether it did.
fn remove_unused(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    file.try_lock().is_ok() && fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests;
