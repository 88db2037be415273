//! The folder that wire images are kept in: within a budget, least recently used go first, never one in use.
//!
//! Several processes may share a folder. Whoever uses an image holds a shared `flock` on it, whoever writes one an exclusive
//! lock on a file with another name, so what nobody has locked may go: images when room is needed, unfinished files when a
//! process that was killed left them behind. The modification time of an image is the time of its last use.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Ending of finished images.
const IMAGE: &str = "wpi";
/// Ending of images that are being written.
const PART: &str = "part";

/// The cache cannot do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CacheError {
    /// The folder cannot be made, read or written to. The operator's to mend, or to name another.
    #[error("cannot use the cache folder {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// There is not enough room within the budget. The operator's to raise it.
    #[error(
        "an image of {needed} bytes does not fit the cache in {}: {in_use} of its budget of {budget} bytes are in use; \
         raise --cache-size",
        folder.display()
    )]
    Budget {
        /// The folder.
        folder: PathBuf,
        /// Bytes asked for.
        needed: u64,
        /// Bytes that cannot be freed.
        in_use: u64,
        /// The budget in bytes.
        budget: u64,
    },
    /// The disk is full. The operator's to make room, or to name another folder.
    #[error(
        "no space left for an image of {needed} bytes in the cache folder {}; make room there, lower --cache-size so that \
         others have it, or name a cache folder on another disk",
        folder.display()
    )]
    DiskFull {
        /// The folder.
        folder: PathBuf,
        /// Bytes asked for.
        needed: u64,
    },
}

/// A folder of wire images.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    budget: u64,
    /// Held while room is made, so that two images do not both count on the same room.
    making_room: Mutex<()>,
    /// What the images took when they were last looked at.
    seen_bytes: AtomicU64,
}

impl Cache {
    /// Makes the folder if need be, and removes what processes that were killed left unfinished. The images in it may take
    /// `budget` bytes.
    ///
    /// # Errors
    /// [`CacheError::Folder`].
    pub fn open(folder: &Path, budget: u64) -> Result<Cache, CacheError> {
        let cache = Cache {
            folder: folder.to_owned(),
            budget,
            making_room: Mutex::default(),
            seen_bytes: AtomicU64::new(0),
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .and_then(|()| cache.remove_leftovers())
            .and_then(|()| cache.entries())
            .map_err(|source| cache.folder_error(source))
            .map(|entries| cache.seen_bytes.store(taken_by(&entries), Relaxed))?;
        Ok(cache)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a finished image of this name is, if there is one.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{IMAGE}"))
    }

    /// The budget in bytes.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Bytes that the images in it take, unfinished ones included.
    ///
    /// # Errors
    /// [`CacheError::Folder`].
    pub fn used(&self) -> Result<u64, CacheError> {
        let entries = self.entries().map_err(|source| self.folder_error(source))?;
        Ok(taken_by(&entries))
    }

    /// Bytes that the images took, unfinished ones included, when room was last made for one. Does not ask the storage, which may
    /// hang.
    pub fn seen_bytes(&self) -> u64 {
        self.seen_bytes.load(Relaxed)
    }

    /// Opens a finished image and marks it as used, now and for as long as the file is open.
    ///
    /// # Errors
    /// [`CacheError::Folder`].
    pub fn find(&self, name: &str) -> Result<Option<File>, CacheError> {
        let open = || -> io::Result<Option<File>> {
            let file = match File::open(self.path_of(name)) {
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
            // A folder that may only be read from still serves; then the least recently used is the oldest.
            if let Err(error) = file.set_modified(SystemTime::now()) {
                tracing::debug!(%error, image = name, "the time of its last use could not be set");
            }
            Ok(Some(file))
        };
        open().map_err(|source| self.folder_error(source))
    }

    /// Begins an image of at most `length` bytes, room for which is made and reserved.
    ///
    /// # Errors
    /// [`CacheError`].
    pub fn begin(&self, name: &str, length: u64) -> Result<Draft, CacheError> {
        self.begin_with(name, length, reserve)
    }

    /// Removes an image, because what is in `damaged` is. Another file that has its name by now stays. Whoever still uses the
    /// image keeps what it has.
    ///
    /// # Errors
    /// [`CacheError::Folder`].
    pub fn remove(&self, name: &str, damaged: &File) -> Result<(), CacheError> {
        let path = self.path_of(name);
        let remove = || -> io::Result<()> {
            let (there, found) = (fs::symlink_metadata(&path)?, damaged.metadata()?);
            if (there.dev(), there.ino()) == (found.dev(), found.ino()) {
                fs::remove_file(&path)?;
            }
            Ok(())
        };
        match remove() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.folder_error(error)),
            _ => Ok(()),
        }
    }

    /// Begins an image; a disk that is full before the budget is used up is treated as the budget is.
    fn begin_with(
        &self,
        name: &str,
        length: u64,
        reserve: impl Fn(&File, u64) -> io::Result<()>,
    ) -> Result<Draft, CacheError> {
        let _alone = self.making_room.lock().unwrap_or_else(PoisonError::into_inner);
        self.make_room(length)?;
        let draft = self.create(name).map_err(|source| self.folder_error(source))?;
        loop {
            match reserve(&draft.file, length) {
                Ok(()) => return Ok(draft),
                Err(error) if error.kind() != io::ErrorKind::StorageFull => {
                    return Err(self.folder_error(error));
                }
                Err(_) if self.remove_least_recently_used()? => {}
                Err(_) => {
                    return Err(CacheError::DiskFull { folder: self.folder.clone(), needed: length });
                }
            }
        }
    }

    fn folder_error(&self, source: io::Error) -> CacheError {
        CacheError::Folder { folder: self.folder.clone(), source: source.into() }
    }

    fn create(&self, name: &str) -> io::Result<Draft> {
        let part = self.folder.join(format!("{name}.{:016x}.{PART}", getrandom::u64()?));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&part)?;
        let draft = Draft { file, part, image: self.path_of(name), published: false };
        if geteuid().is_root() {
            // Root packs ahead of time for a server that runs as the user whose folder this is.
            let owner = fs::metadata(&self.folder)?;
            fchown(&draft.file, Some(owner.uid()), Some(owner.gid()))?;
        }
        draft.file.lock()?;
        Ok(draft)
    }

    /// Removes images that nobody uses, least recently used first, until `needed` bytes fit the budget.
    fn make_room(&self, needed: u64) -> Result<(), CacheError> {
        let mut entries = self.entries().map_err(|source| self.folder_error(source))?;
        entries.sort_by_key(|entry| entry.used);
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
            let folder = self.folder.clone();
            return Err(CacheError::Budget { folder, needed, in_use: total, budget: self.budget });
        }
        self.seen_bytes.store(total + needed, Relaxed);
        Ok(())
    }

    /// Removes the least recently used image that nobody uses; answers whether there was one.
    fn remove_least_recently_used(&self) -> Result<bool, CacheError> {
        let mut entries = self.entries().map_err(|source| self.folder_error(source))?;
        entries.sort_by_key(|entry| entry.used);
        let removed = entries.iter().find(|entry| entry.finished && remove_unused(&entry.path));
        if let Some(entry) = removed {
            tracing::info!(image = %entry.path.display(), "removed because the disk is full");
        }
        Ok(removed.is_some())
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        for entry in self.entries()?.iter().filter(|entry| !entry.finished) {
            if remove_unused(&entry.path) {
                tracing::info!(file = %entry.path.display(), "removed what an earlier process left unfinished");
            }
        }
        Ok(())
    }

    /// The images of this folder, finished or not. Other files are nobody's business here.
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for item in fs::read_dir(&self.folder)? {
            let path = item?.path();
            let ending = path.extension().map(OsString::from).unwrap_or_default();
            let finished = match ending.as_bytes() {
                ending if ending == IMAGE.as_bytes() => true,
                ending if ending == PART.as_bytes() => false,
                _ => continue,
            };
            match fs::symlink_metadata(&path) {
                Ok(facts) if facts.is_file() => {
                    // An unfinished image counts with what was reserved for it.
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

/// An image that is being written. Dropped unfinished, it is removed.
#[derive(Debug)]
pub struct Draft {
    file: File,
    part: PathBuf,
    image: PathBuf,
    published: bool,
}

impl Draft {
    /// The file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Cuts the file to `length` bytes, has all of it reach the disk, and gives it its final name, in place of an older image.
    /// The lock becomes that of a user.
    ///
    /// # Errors
    /// What the calls say; then there is no image, or the older one.
    pub fn publish(mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.sync_all()?;
        self.file.lock_shared()?;
        fs::rename(&self.part, &self.image)?;
        self.published = true;
        let folder = self.image.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published
            && let Err(error) = fs::remove_file(&self.part)
        {
            tracing::warn!(%error, file = %self.part.display(), "an unfinished image could not be removed");
        }
    }
}

/// Has the file system set room aside, so that a full disk is known before anything is written. File systems that cannot are
/// asked for a length only.
fn reserve(file: &File, length: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, length) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(length),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a file that nobody has locked; answers whether it did.
fn remove_unused(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    file.try_lock().is_ok() && fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cache(budget: u64) -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("images"), budget).unwrap();
        (folder, cache)
    }

    /// An image of 10,000 bytes that was last used `age` seconds ago.
    fn add(cache: &Cache, name: &str, age: u64) {
        let draft = cache.begin(name, 12_000).unwrap();
        let handle = draft.file().try_clone().unwrap();
        draft.publish(10_000).unwrap();
        handle.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }

    #[test]
    fn there_is_a_whole_image_or_none() {
        let (_folder, cache) = cache(100_000);
        let draft = cache.begin("a", 5000).unwrap();
        assert!(cache.find("a").unwrap().is_none());
        drop(draft);
        assert_eq!(cache.used().unwrap(), 0);
        add(&cache, "a", 0);
        assert_eq!(cache.find("a").unwrap().unwrap().metadata().unwrap().len(), 10_000);
    }

    #[test]
    fn an_image_belongs_to_the_owner_of_the_folder() {
        let (_folder, cache) = cache(100_000);
        if geteuid().is_root() {
            std::os::unix::fs::chown(cache.folder(), Some(65_534), Some(65_534)).unwrap();
        }
        add(&cache, "a", 0);
        let owner = |path: &Path| (fs::metadata(path).unwrap().uid(), fs::metadata(path).unwrap().gid());
        assert_eq!(owner(&cache.path_of("a")), owner(cache.folder()));
    }

    #[test]
    fn the_least_recently_used_goes_first_and_never_one_in_use() {
        let (_folder, cache) = cache(40_000);
        add(&cache, "old", 300);
        add(&cache, "older", 400);
        add(&cache, "new", 100);
        let in_use = cache.find("older").unwrap().unwrap();
        // Now `older` is the most recently used, and in use; make that the only thing that keeps it.
        in_use.set_modified(SystemTime::now() - Duration::from_secs(400)).unwrap();
        add(&cache, "another", 0);
        let there = ["old", "older", "new", "another"].map(|name| cache.find(name).unwrap().is_some());
        assert_eq!(there, [false, true, true, true]);
    }

    #[test]
    fn what_does_not_fit_is_an_error_that_says_what_to_do() {
        let (_folder, cache) = cache(20_000);
        add(&cache, "a", 0);
        let _in_use = cache.find("a").unwrap().unwrap();
        let error = cache.begin("b", 12_000).unwrap_err().to_string();
        assert!(error.contains("--cache-size") && error.contains("12000"), "{error}");
        assert!(cache.find("a").unwrap().is_some());
    }

    #[test]
    fn a_full_disk_costs_the_least_recently_used_one_by_one_and_never_one_in_use() {
        let (_folder, cache) = cache(1 << 30);
        for (name, age) in [("in-use", 400), ("older", 300), ("old", 200), ("new", 100)] {
            add(&cache, name, age);
        }
        let in_use = cache.find("in-use").unwrap().unwrap();
        in_use.set_modified(SystemTime::now() - Duration::from_secs(400)).unwrap();
        let full_until = |images: usize| {
            let folder = cache.folder().to_owned();
            move |_: &File, _: u64| {
                let left = fs::read_dir(&folder).unwrap().count() - 1; // without the draft
                if left > images { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
            }
        };
        drop(cache.begin_with("a", 5000, full_until(2)).unwrap());
        let names = ["in-use", "older", "old", "new"];
        assert_eq!(names.map(|name| cache.path_of(name).exists()), [true, false, false, true]);

        let error = cache.begin_with("a", 5000, full_until(0)).unwrap_err().to_string();
        assert!(error.contains("5000") && error.contains("--cache-size"), "{error}");
        assert_eq!(names.map(|name| cache.path_of(name).exists()), [true, false, false, false]);
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn only_the_file_that_was_found_damaged_is_removed() {
        let (_folder, cache) = cache(100_000);
        add(&cache, "a", 0);
        let damaged = cache.find("a").unwrap().unwrap();
        add(&cache, "a", 0);
        cache.remove("a", &damaged).unwrap();
        let good = cache.find("a").unwrap().expect("another file has the name by now");
        cache.remove("a", &good).unwrap();
        assert!(cache.find("a").unwrap().is_none());
        cache.remove("a", &good).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not() {
        let (folder, cache) = cache(100_000);
        let path = folder.path().join("images");
        fs::write(path.join("x.0123.part"), [0; 100]).unwrap();
        fs::write(path.join("somebody-else.txt"), "kept").unwrap();
        let living = cache.begin("y", 5000).unwrap();
        Cache::open(&path, 100_000).unwrap();
        assert!(!path.join("x.0123.part").exists());
        assert!(path.join("somebody-else.txt").exists());
        living.publish(5000).unwrap();
        assert!(cache.find("y").unwrap().is_some());
    }
}
