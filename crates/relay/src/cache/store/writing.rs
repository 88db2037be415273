//! Writer of bodies, which also allocates their space.
//!
//! Space for a body is reserved when its head is received, and used as the body grows: entries are evicted
//! for received bytes, not for a length that a head states. All reservations together fit the budget, so
//! eviction always frees enough for the reserved space.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use super::{Store, StoredEntry};
use crate::cache::cost::{Cost, record_bytes};
use crate::cache::entry::Entry;
use crate::cache::folder::{MAX_RECORD_BYTES, body_name, part_name};

/// Maximum number of entries evicted to free a few blocks, for a record or a file name.
const MAX_EVICTIONS: usize = 16;

/// Space of a body before its first byte is received.
const FIRST_BYTES: u64 = 64 * 1024;

/// Writer of a body. Dropping the writer removes the body, unless it is [committed](BodyWriter::commit).
#[derive(Debug)]
pub(in crate::cache) struct BodyWriter {
    store: Arc<Store>,
    key: Arc<str>,
    number: u64,
    body: String,
    pub(in crate::cache) file: Arc<File>,
    cost: Cost,
    is_committed: bool,
}

/// Space of a body. The space doubles as the body grows.
#[derive(Clone, Debug)]
pub(in crate::cache) struct Space {
    store: Arc<Store>,
    number: u64,
    file: Arc<File>,
}

impl Store {
    /// Reserves space for an entry and creates the file of its body. Returns None if the other reservations
    /// leave too little space, the body is too large for the budget or the disk, or the head is too long.
    pub(in crate::cache) fn reserve(
        self: &Arc<Store>,
        key: &Arc<str>,
        entry: &Entry,
    ) -> io::Result<Option<BodyWriter>> {
        let cost = Cost::of(entry, key);
        if record_bytes(entry, key) > MAX_RECORD_BYTES {
            return Ok(None);
        }
        let mut index = self.index.lock();
        if !index.reservations.reserved().with(cost).fits(self.budget) {
            return Ok(None);
        }
        let number = index.next_body();
        index.reservations.reserve(number, cost, entry.bytes);
        drop(index);
        let body = body_name(key, number);
        let created = self.with_eviction(key, || self.folder.create_part(&body));
        let file = Arc::new(created.inspect_err(|_| self.index.lock().reservations.release(number))?);
        let (store, key) = (Arc::clone(self), Arc::clone(key));
        let writer = BodyWriter { store, key, number, body, file, cost, is_committed: false };
        let has_space = self.fits_disk(&writer.file, entry.bytes)?
            && writer.space().take(entry.bytes.min(FIRST_BYTES))?;
        Ok(has_space.then_some(writer))
    }

    /// Returns whether the file system allows files of so many bytes, and the disk would have space for the
    /// reserved and unused bytes if all entries were evicted.
    fn fits_disk(&self, file: &File, bytes: u64) -> io::Result<bool> {
        match file.set_len(bytes) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Ok(false),
            result => result?,
        }
        let available = available_bytes(file)?;
        let index = self.index.lock();
        let unused = index.reservations.reserved().without(index.reservations.used());
        Ok(unused.bytes <= available.saturating_add(index.cost.bytes))
    }

    /// Allocates space on the disk. If the disk is full, evicts entries, provided that eviction can free
    /// enough. Returns whether the space was allocated.
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<bool> {
        loop {
            match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
                Ok(()) => return Ok(true),
                // A file system without fallocate(2) would report a full disk only when the body is written.
                Err(Errno::OPNOTSUPP) if available_bytes(file)? >= bytes => return Ok(true),
                Err(Errno::NOSPC | Errno::DQUOT | Errno::OPNOTSUPP) => {
                    let most = available_bytes(file)?.saturating_add(self.index.lock().cost.bytes);
                    if bytes > most || !self.evict_other("") {
                        return Ok(false);
                    }
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Runs `act`, which needs a few blocks of the disk. If the disk is full, evicts entries with other keys.
    /// Only a few are evicted, since the space may not become free: a client may still read an evicted entry,
    /// or another process may take the space.
    pub(super) fn with_eviction<T>(&self, key: &str, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
        for _ in 0..MAX_EVICTIONS {
            match act() {
                Err(error) if is_full(&error) && self.evict_other(key) => {}
                done => return done,
            }
        }
        act()
    }
}

impl Space {
    /// Space to take next for a body of `whole_bytes`, of which so many have been received.
    pub(in crate::cache) fn next(received_bytes: u64, whole_bytes: u64) -> u64 {
        received_bytes.saturating_mul(2).max(FIRST_BYTES).min(whole_bytes)
    }

    /// Takes space for so many bytes of the body, and evicts entries to free it. Returns whether there is
    /// enough. May wait for storage.
    pub(in crate::cache) fn take(&self, bytes: u64) -> io::Result<bool> {
        let store = &self.store;
        loop {
            let mut index = store.index.lock();
            let kept = index.cost;
            match index.reservations.grow(self.number, bytes, |used| kept.with(used).fits(store.budget)) {
                Some(true) => break,
                Some(false) => {}
                None => return Ok(false), // the writer was dropped meanwhile
            }
            drop(index);
            if !store.evict_other("") {
                return Ok(false);
            }
        }
        Ok(bytes == 0 || store.allocate(&self.file, bytes)?)
    }
}

impl BodyWriter {
    pub(in crate::cache) fn space(&self) -> Space {
        Space { store: Arc::clone(&self.store), number: self.number, file: Arc::clone(&self.file) }
    }

    /// Stores the complete body with its head, and replaces the previous entry of the URL.
    pub(in crate::cache) fn commit(mut self, entry: Arc<Entry>) -> io::Result<Arc<StoredEntry>> {
        let folder = &self.store.folder;
        let body_modified_ns = folder.finish_body(&self.file, &self.body)?;
        let record = entry.record(&self.body, body_modified_ns);
        let written = self.store.with_eviction(&self.key, || folder.write_record(&self.key, &record))?;
        let (key, body, cost) = (Arc::clone(&self.key), self.body.clone(), self.cost);
        let _changing = self.store.changing.lock();
        folder.place_record(&self.key, written)?;
        self.is_committed = true;
        let stored = StoredEntry { key, entry, body, body_modified_ns, cost };
        let mut index = self.store.index.lock();
        index.reservations.release(self.number);
        let old = index.take(&self.key);
        let stored = index.put(stored);
        drop(index);
        if let Some(old) = old.filter(|old| old.body != self.body) {
            folder.remove(&old.body);
        }
        Ok(stored)
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        if !self.is_committed {
            self.store.folder.remove(&part_name(&self.body));
            self.store.folder.remove(&self.body);
            self.store.index.lock().reservations.release(self.number);
        }
    }
}

/// Returns whether an error means that the disk or the user's quota is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Size to which a file could grow on its disk, in bytes.
fn available_bytes(file: &File) -> io::Result<u64> {
    let disk = fstatvfs(file)?;
    // The file may already have allocated blocks.
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize).saturating_add(file.metadata()?.blocks() * 512))
}
