//! What is kept: within a budget, least recently used go first.

mod claims;
mod writing;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use ring::digest;

use super::cost::{Cost, record_bytes};
use super::entry::Entry;
use super::folder::{Folder, FolderError, GREATEST_NUMBER, LONGEST_RECORD, Written, body_number, is_damage};
use super::status::Counters;
use claims::Claims;
pub(super) use writing::{Room, Writing};

/// Entries of one cache. All but [`find`](Store::find) may wait for storage.
#[derive(Debug)]
pub(super) struct Store {
    folder: Folder,
    budget: Cost,
    index: Mutex<Index>,
    /// Held while an entry comes or goes in the index and in the folder, so that both say the same of it.
    /// Taken before the index.
    changing: Mutex<()>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Index {
    kept: HashMap<Arc<str>, (u64, Arc<Kept>)>,
    /// Keys by the last use.
    order: BTreeMap<u64, Arc<str>>,
    uses: u64,
    /// What entries take.
    cost: Cost,
    /// What those take that are being written.
    claims: Claims,
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
            let mut index = store.index.lock();
            index.bodies = index.bodies.max(body_number(&kept.body).unwrap_or(0));
            index.put(kept);
        }
        store.keep_to_budget();
        Ok(store)
    }

    /// The entry of a URL, which is used now.
    pub(super) fn find(&self, key: &str, url: &str) -> Option<Arc<Kept>> {
        let mut index = self.index.lock();
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
                let _changing = self.changing.lock();
                // One that was replaced or evicted since it was found is not damaged.
                if self.index.lock().take_if_same(kept) {
                    tracing::warn!(url = kept.entry.url, %error, "an entry of the cache is damaged; it is dropped");
                    self.counters.damaged.fetch_add(1, Relaxed);
                    self.folder.remove_entry(&kept.key, &kept.body);
                }
                Ok(None)
            }
        }
    }

    /// Puts another head in place of an entry's. If it cannot be written down, it is the entry's until this
    /// process ends, and the next one finds the entry as it was.
    ///
    /// # Errors
    /// `NotFound` if the entry has gone meanwhile, or there is another; what is wrong with the head
    /// otherwise.
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
        let changing = self.changing.lock();
        if !self.index.lock().has(kept) {
            return Err(io::ErrorKind::NotFound.into()); // it was evicted meanwhile, or replaced
        }
        if let Err(error) = written.and_then(Written::place) {
            tracing::warn!(url = kept.entry.url, %error, "a head that was renewed could not be written down; it is used");
        }
        let mut index = self.index.lock();
        index.take(&kept.key);
        let renewed = index.put(renewed);
        drop((index, changing));
        self.keep_to_budget();
        Ok(renewed)
    }

    /// Removes the entry of a URL, if there is one.
    pub(super) fn remove(&self, key: &str) {
        let _changing = self.changing.lock();
        let taken = self.index.lock().take(key);
        if let Some(kept) = taken {
            self.folder.remove_entry(&kept.key, &kept.body);
        }
    }

    /// Number of entries, and what they take in bytes, those that are being written included.
    pub(super) fn size(&self) -> (u64, u64) {
        let index = self.index.lock();
        (index.kept.len() as u64, index.cost.with(index.claims.taken()).bytes)
    }

    /// Removes the entry that was not used for longest; answers whether there was one.
    fn evict(&self) -> bool {
        self.evict_other("")
    }

    /// Removes the entry of another key that was not used for longest; answers whether there was one.
    fn evict_other(&self, than: &str) -> bool {
        let _changing = self.changing.lock();
        let mut index = self.index.lock();
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
        let is_over = || {
            let index = self.index.lock();
            !index.cost.with(index.claims.taken()).fits(self.budget)
        };
        while is_over() && self.evict() {}
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
        self.cost = self.cost.without(kept.cost);
        Some(kept)
    }

    /// Returns whether an entry is still what there is of its URL; with another head, perhaps.
    fn has(&self, kept: &Kept) -> bool {
        self.kept.get(&kept.key).is_some_and(|(_, there)| there.body == kept.body)
    }

    /// Takes an entry out unless there is another of that URL by now, or none; answers whether it did.
    fn take_if_same(&mut self, kept: &Kept) -> bool {
        self.has(kept) && self.take(&kept.key).is_some()
    }
}

#[cfg(test)]
mod tests;
