//! Entries of a cache, within a budget. The least recently used entries are evicted first.

mod reservations;
mod writing;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use ring::digest;

use super::cost::{Cost, record_bytes};
use super::entry::Entry;
use super::folder::{Folder, FolderError, MAX_BODY_NUMBER, MAX_RECORD_BYTES, body_number, is_damage};
use super::status::Counters;
use reservations::Reservations;
pub(super) use writing::{BodyWriter, Space};

/// Entries of a cache. All functions except [`find`](Store::find) may wait for storage.
#[derive(Debug)]
pub(super) struct Store {
    folder: Folder,
    budget: Cost,
    index: Mutex<Index>,
    /// Held while the index and the folder change, so that they agree. Locked before the index.
    changing: Mutex<()>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Index {
    entries: HashMap<Arc<str>, (u64, Arc<StoredEntry>)>,
    order: BTreeMap<u64, Arc<str>>,
    uses: u64,
    cost: Cost,
    /// Space reserved for bodies that are being written.
    reservations: Reservations,
    bodies: u64,
}

/// Entry with the file of its body.
#[derive(Debug)]
pub(super) struct StoredEntry {
    pub(super) key: Arc<str>,
    pub(super) entry: Arc<Entry>,
    body: String,
    body_modified_ns: u64,
    cost: Cost,
}

pub(super) fn key(url: &str) -> Arc<str> {
    let digest = digest::digest(&digest::SHA256, url.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

impl Store {
    /// Opens the folder, with as many entries as fit `budget`.
    pub(super) fn open(folder: &Path, budget: Cost, counters: Arc<Counters>) -> Result<Store, FolderError> {
        let folder = Folder::open(folder)?;
        let (found, damaged) = folder.scan()?;
        counters.damaged.add(damaged);
        let store = Store { folder, budget, index: Mutex::default(), changing: Mutex::default(), counters };
        for found in found {
            let (key, entry) = (Arc::from(found.key), Arc::new(found.entry));
            let cost = Cost::of(&entry, &key);
            let (body, body_modified_ns) = (found.body, found.body_modified_ns);
            let mut index = store.index.lock();
            index.bodies = index.bodies.max(body_number(&body).unwrap_or(0));
            index.put(StoredEntry { key, entry, body, body_modified_ns, cost });
        }
        store.keep_to_budget();
        Ok(store)
    }

    /// Finds the entry of a URL and marks it as used.
    pub(super) fn find(&self, key: &str, url: &str) -> Option<Arc<StoredEntry>> {
        let mut index = self.index.lock();
        let stored = Arc::clone(&index.entries.get(key).filter(|(_, stored)| stored.entry.url == url)?.1);
        index.touch(&stored.key);
        Some(stored)
    }

    /// Opens the body of an entry. Returns None if the entry is damaged; the entry is then removed. After
    /// other errors, the entry stays.
    pub(super) fn open_body(&self, stored: &StoredEntry) -> io::Result<Option<File>> {
        match self.folder.open_body(&stored.body, stored.entry.bytes, stored.body_modified_ns) {
            Ok(file) => Ok(Some(file)),
            Err(error) if !is_damage(&error) => Err(error),
            Err(error) => {
                let _changing = self.changing.lock();
                // An entry that was replaced or evicted after the look-up is not damaged.
                if self.index.lock().take_if_same(stored) {
                    tracing::warn!(url = stored.entry.url, %error, "damaged cache entry removed");
                    self.counters.damaged.increment();
                    self.folder.remove_entry(&stored.key, &stored.body);
                }
                Ok(None)
            }
        }
    }

    /// Replaces the head of an entry. If the record cannot be written, the new head is kept in memory until
    /// the process ends. Fails with `NotFound` if the entry was evicted or replaced meanwhile.
    pub(super) fn renew(&self, stored: &StoredEntry, entry: Entry) -> io::Result<Arc<StoredEntry>> {
        if record_bytes(&entry, &stored.key) > MAX_RECORD_BYTES {
            return Err(io::Error::other("its head is too long now"));
        }
        let record = entry.record(&stored.body, stored.body_modified_ns);
        let written = self.with_eviction(&stored.key, || self.folder.write_record(&stored.key, &record));
        let renewed = StoredEntry {
            cost: Cost::of(&entry, &stored.key),
            key: Arc::clone(&stored.key),
            entry: Arc::new(entry),
            body: stored.body.clone(),
            body_modified_ns: stored.body_modified_ns,
        };
        let changing = self.changing.lock();
        if !self.index.lock().has(stored) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if let Err(error) = written.and_then(|written| self.folder.place_record(&stored.key, written)) {
            tracing::warn!(url = stored.entry.url, %error, "cannot write the renewed head; using it from memory");
        }
        let mut index = self.index.lock();
        index.take(&stored.key);
        let renewed = index.put(renewed);
        drop((index, changing));
        self.keep_to_budget();
        Ok(renewed)
    }

    /// Removes the entry of a URL, if there is an entry.
    pub(super) fn remove(&self, key: &str) {
        let _changing = self.changing.lock();
        let taken = self.index.lock().take(key);
        if let Some(stored) = taken {
            self.folder.remove_entry(&stored.key, &stored.body);
        }
    }

    /// Number of entries, and their size in bytes including entries that are being written.
    pub(super) fn size(&self) -> (u64, u64) {
        let index = self.index.lock();
        (index.entries.len() as u64, index.cost.with(index.reservations.used()).bytes)
    }

    /// Evicts the least recently used entry with another key. Returns whether there was such an entry.
    fn evict_other(&self, than: &str) -> bool {
        let _changing = self.changing.lock();
        let mut index = self.index.lock();
        let Some(key) = index.order.values().find(|key| ***key != *than).map(Arc::clone) else {
            return false;
        };
        let taken = index.take(&key);
        drop(index);
        let Some(stored) = taken else { return false };
        self.folder.remove_entry(&stored.key, &stored.body);
        self.counters.evictions.increment();
        true
    }

    /// Evicts entries until the remaining ones fit the budget.
    fn keep_to_budget(&self) {
        let is_over = || {
            let index = self.index.lock();
            !index.cost.with(index.reservations.used()).fits(self.budget)
        };
        while is_over() && self.evict_other("") {}
    }
}

impl Index {
    fn put(&mut self, stored: StoredEntry) -> Arc<StoredEntry> {
        let stored = Arc::new(stored);
        self.uses += 1;
        self.cost = self.cost.with(stored.cost);
        self.order.insert(self.uses, Arc::clone(&stored.key));
        self.entries.insert(Arc::clone(&stored.key), (self.uses, Arc::clone(&stored)));
        stored
    }

    fn next_body(&mut self) -> u64 {
        // The maximum number in a folder is forged, so the numbers start over at 1.
        self.bodies = self.bodies % MAX_BODY_NUMBER + 1;
        self.bodies
    }

    fn touch(&mut self, key: &Arc<str>) {
        self.uses += 1;
        if let Some((last_use, _)) = self.entries.get_mut(key) {
            self.order.remove(last_use);
            *last_use = self.uses;
            self.order.insert(self.uses, Arc::clone(key));
        }
    }

    fn take(&mut self, key: &str) -> Option<Arc<StoredEntry>> {
        let (last_use, stored) = self.entries.remove(key)?;
        self.order.remove(&last_use);
        self.cost = self.cost.without(stored.cost);
        Some(stored)
    }

    /// Returns whether the index has this body, even if with another head.
    fn has(&self, stored: &StoredEntry) -> bool {
        self.entries.get(&stored.key).is_some_and(|(_, there)| there.body == stored.body)
    }

    /// Removes an entry from the index. Returns whether the index had the entry.
    fn take_if_same(&mut self, stored: &StoredEntry) -> bool {
        self.has(stored) && self.take(&stored.key).is_some()
    }
}

#[cfg(test)]
mod tests;
