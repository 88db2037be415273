//! What is kept: within a budget, least recently used go first.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use super::cost::{Cost, record_bytes};
use super::entry::Entry;
use super::folder::{
    Folder, FolderError, GREATEST_NUMBER, LONGEST_RECORD, Written, body_name, body_number, is_damage,
    part_name,
};
use super::status::Counters;

/// Most entries that go for one record, or for the name of a file.
const MOST_FOR_A_FEW_BLOCKS: usize = 16;

/// Entries of one cache. All but [`find`](Store::find) may wait for storage.
#[derive(Debug)]
pub(super) struct Store {
    folder: Folder,
    budget: Cost,
    index: Mutex<Index>,
    /// Held while an entry comes or goes in the index and in the folder, so that both say the same of it. Taken before the index.
    changing: Mutex<()>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Index {
    kept: HashMap<Arc<str>, (u64, Arc<Kept>)>,
    /// Keys by the last use.
    order: BTreeMap<u64, Arc<str>>,
    uses: u64,
    /// What entries take, and those that are being written.
    cost: Cost,
    bodies: u64,
}

/// An entry and where its body is.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) key: Arc<str>,
    pub(super) entry: Arc<Entry>,
    body: String,
    body_modified_ns: u64,
    cost: Cost,
}

/// A body that is being written. What is not [kept](Writing::keep) is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Writing {
    store: Arc<Store>,
    key: Arc<str>,
    body: String,
    pub(super) file: Arc<File>,
    cost: Cost,
    is_kept: bool,
}

/// The key of a URL.
pub(super) fn key(url: &str) -> Arc<str> {
    let digest = digest::digest(&digest::SHA256, url.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

impl Store {
    /// Opens the folder, which nobody else has open, with what is in it as far as `budget` goes.
    pub(super) fn open(folder: &Path, budget: Cost, counters: Arc<Counters>) -> Result<Store, FolderError> {
        let folder = Folder::open(folder)?;
        let (found, damaged) = folder.sweep()?;
        counters.damaged.fetch_add(damaged, Relaxed);
        let store = Store { folder, budget, index: Mutex::default(), changing: Mutex::default(), counters };
        for found in found {
            let (key, entry) = (Arc::from(found.key), Arc::new(found.entry));
            let cost = Cost::of(&entry, &key);
            let kept = Kept { key, entry, body: found.body, body_modified_ns: found.body_modified_ns, cost };
            let mut index = store.lock();
            index.bodies = index.bodies.max(body_number(&kept.body).unwrap_or(0));
            index.put(kept);
        }
        store.keep_to_budget();
        Ok(store)
    }

    /// The entry of a URL, which is used now.
    pub(super) fn find(&self, key: &str, url: &str) -> Option<Arc<Kept>> {
        let mut index = self.lock();
        let kept =
            index.kept.get(key).map(|(_, kept)| Arc::clone(kept)).filter(|kept| kept.entry.url == url)?;
        index.used(&kept.key);
        Some(kept)
    }

    /// The body of an entry; None if it is not what it was: then the entry is gone.
    ///
    /// # Errors
    /// What the system says, if that is not about the file; the entry stays.
    pub(super) fn open_body(&self, kept: &Kept) -> io::Result<Option<File>> {
        match self.folder.open_body(&kept.body, kept.entry.bytes, kept.body_modified_ns) {
            Ok(file) => Ok(Some(file)),
            Err(error) if !is_damage(&error) => Err(error),
            Err(error) => {
                let _changing = self.change();
                // One that was replaced or evicted since it was found is not damaged.
                if self.lock().take_if_same(kept) {
                    tracing::warn!(url = kept.entry.url, %error, "an entry of the cache is damaged; it is dropped");
                    self.counters.damaged.fetch_add(1, Relaxed);
                    self.folder.remove_entry(&kept.key, &kept.body);
                }
                Ok(None)
            }
        }
    }

    /// A file with room for the body of an entry, for which others go if need be; None if there is no room, or its head is too long.
    ///
    /// # Errors
    /// What the system says of the file.
    pub(super) fn reserve(self: &Arc<Store>, key: &Arc<str>, entry: &Entry) -> io::Result<Option<Writing>> {
        let cost = Cost::of(entry, key);
        if record_bytes(entry, key) > LONGEST_RECORD || !cost.fits(self.budget) {
            return Ok(None);
        }
        let number = loop {
            let mut index = self.lock();
            if index.cost.with(cost).fits(self.budget) {
                index.cost = index.cost.with(cost);
                break index.next_body();
            }
            drop(index);
            if !self.evict() {
                return Ok(None);
            }
        };
        let body = body_name(key, number);
        let created = self.making_room(key, || self.folder.create_part(&body));
        let file = Arc::new(created.inspect_err(|_| self.lock().give_back(cost))?);
        // From here on it is removed if it is not kept.
        let writing =
            Writing { store: Arc::clone(self), key: Arc::clone(key), body, file, cost, is_kept: false };
        Ok(self.allocate(&writing.file, entry.bytes, cost)?.then_some(writing))
    }

    /// Takes the room on the disk, for which others go if it is full and that is enough; answers whether there is.
    fn allocate(&self, file: &File, bytes: u64, cost: Cost) -> io::Result<bool> {
        if bytes == 0 {
            return Ok(true);
        }
        loop {
            match fallocate(file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => return Ok(true),
                // A file system that cannot reserve says that it is full when a body is written. So it is asked.
                Err(Errno::OPNOTSUPP) if room_for(file)? >= bytes => return Ok(true),
                Err(Errno::NOSPC | Errno::DQUOT | Errno::OPNOTSUPP) => {
                    let others = self.size().1.saturating_sub(cost.bytes);
                    let could_be_there = room_for(file)?.saturating_add(others);
                    if bytes > could_be_there || !self.evict() {
                        return Ok(false);
                    }
                }
                Err(Errno::FBIG) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Puts another head in place of an entry's. If it cannot be written down, it is the entry's until this process ends, and the next
    /// one finds the entry as it was.
    ///
    /// # Errors
    /// `NotFound` if the entry has gone meanwhile, or there is another; what is wrong with the head otherwise.
    pub(super) fn renew(&self, kept: &Kept, entry: Entry) -> io::Result<Arc<Kept>> {
        if record_bytes(&entry, &kept.key) > LONGEST_RECORD {
            return Err(io::Error::other("its head is too long now"));
        }
        let record = entry.record(&kept.body, kept.body_modified_ns);
        let written = self.making_room(&kept.key, || self.folder.write_record(&kept.key, &record));
        let renewed = Kept {
            cost: Cost::of(&entry, &kept.key),
            key: Arc::clone(&kept.key),
            entry: Arc::new(entry),
            body: kept.body.clone(),
            body_modified_ns: kept.body_modified_ns,
        };
        let changing = self.change();
        if !self.lock().has(kept) {
            return Err(io::ErrorKind::NotFound.into()); // it was evicted meanwhile, or replaced
        }
        if let Err(error) = written.and_then(Written::place) {
            tracing::warn!(url = kept.entry.url, %error, "a head that was renewed could not be written down; it is used");
        }
        let mut index = self.lock();
        index.take(&kept.key);
        let renewed = index.put(renewed);
        drop((index, changing));
        self.keep_to_budget();
        Ok(renewed)
    }

    /// Removes the entry of a URL, if there is one.
    pub(super) fn remove(&self, key: &str) {
        let _changing = self.change();
        let taken = self.lock().take(key);
        if let Some(kept) = taken {
            self.folder.remove_entry(&kept.key, &kept.body);
        }
    }

    /// Number of entries, and what they take in bytes, those that are being written included.
    pub(super) fn size(&self) -> (u64, u64) {
        let index = self.lock();
        (index.kept.len() as u64, index.cost.bytes)
    }

    /// Does what takes a few blocks of the disk. If that is full, entries go for it, but not that of `key`; not many, for some other
    /// may take what they leave, or they leave nothing as long as a client reads them.
    fn making_room<T>(&self, key: &str, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
        for _ in 0..MOST_FOR_A_FEW_BLOCKS {
            match act() {
                Err(error) if is_full(&error) && self.evict_other(key) => {}
                done => return done,
            }
        }
        act()
    }

    /// Removes the entry that was not used for longest; answers whether there was one.
    fn evict(&self) -> bool {
        self.evict_other("")
    }

    /// Removes the entry of another key that was not used for longest; answers whether there was one.
    fn evict_other(&self, than: &str) -> bool {
        let _changing = self.change();
        let mut index = self.lock();
        let Some(key) = index.order.values().find(|key| ***key != *than).map(Arc::clone) else {
            return false;
        };
        let taken = index.take(&key);
        drop(index);
        let Some(kept) = taken else { return false };
        self.folder.remove_entry(&kept.key, &kept.body);
        self.counters.evictions.fetch_add(1, Relaxed);
        true
    }

    /// Removes entries until the others are within the budget.
    fn keep_to_budget(&self) {
        let is_over = || !self.lock().cost.fits(self.budget);
        while is_over() && self.evict() {}
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writing {
    /// Keeps the body, which is complete, under this head, in place of what was kept of that URL.
    ///
    /// # Errors
    /// What the system says; then nothing is kept.
    pub(super) fn keep(mut self, entry: Arc<Entry>) -> io::Result<Arc<Kept>> {
        let folder = &self.store.folder;
        let body_modified_ns = folder.finish_body(&self.file, &self.body)?;
        let record = entry.record(&self.body, body_modified_ns);
        let written = self.store.making_room(&self.key, || folder.write_record(&self.key, &record))?;
        let (key, body, cost) = (Arc::clone(&self.key), self.body.clone(), self.cost);
        let _changing = self.store.change();
        written.place()?;
        self.is_kept = true;
        let kept = Kept { key, entry, body, body_modified_ns, cost };
        let mut index = self.store.lock();
        index.give_back(self.cost);
        let old = index.take(&self.key);
        let kept = index.put(kept);
        drop(index);
        if let Some(old) = old.filter(|old| old.body != self.body) {
            folder.remove(&old.body);
        }
        Ok(kept)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.is_kept {
            self.store.folder.remove(&part_name(&self.body));
            self.store.folder.remove(&self.body);
            self.store.lock().give_back(self.cost);
        }
    }
}

impl Index {
    fn put(&mut self, kept: Kept) -> Arc<Kept> {
        let kept = Arc::new(kept);
        self.uses += 1;
        self.cost = self.cost.with(kept.cost);
        self.order.insert(self.uses, Arc::clone(&kept.key));
        self.kept.insert(Arc::clone(&kept.key), (self.uses, Arc::clone(&kept)));
        kept
    }

    /// The number of a new body.
    fn next_body(&mut self) -> u64 {
        // Who finds the greatest number in the folder begins anew: it was made up.
        self.bodies = self.bodies % GREATEST_NUMBER + 1;
        self.bodies
    }

    fn used(&mut self, key: &Arc<str>) {
        self.uses += 1;
        if let Some((last_use, _)) = self.kept.get_mut(key) {
            self.order.remove(last_use);
            *last_use = self.uses;
            self.order.insert(self.uses, Arc::clone(key));
        }
    }

    fn take(&mut self, key: &str) -> Option<Arc<Kept>> {
        let (last_use, kept) = self.kept.remove(key)?;
        self.order.remove(&last_use);
        self.give_back(kept.cost);
        Some(kept)
    }

    fn give_back(&mut self, cost: Cost) {
        self.cost = self.cost.without(cost);
    }

    /// Whether an entry is still what there is of its URL; with another head, perhaps.
    fn has(&self, kept: &Kept) -> bool {
        self.kept.get(&kept.key).is_some_and(|(_, there)| there.body == kept.body)
    }

    /// Takes an entry out unless there is another of that URL by now, or none; answers whether it did.
    fn take_if_same(&mut self, kept: &Kept) -> bool {
        self.has(kept) && self.take(&kept.key).is_some()
    }
}

/// Whether it is about the disk, or what this user may have of it.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What a file could grow to on its disk, as that says.
fn room_for(file: &File) -> io::Result<u64> {
    let disk = fstatvfs(file)?;
    // What could not be reserved whole may be reserved in part.
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize).saturating_add(file.metadata()?.blocks() * 512))
}

#[cfg(test)]
mod tests;
