//! Bodies that are being written, and the room for them.
//!
//! A body is promised room when its head has come, and takes it as it grows: what a head says costs no entry,
//! what comes does. All that is promised fits the budget, so there is room for what has been promised,
//! whatever goes for it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use super::{Kept, Store};
use crate::cache::cost::{Cost, record_bytes};
use crate::cache::entry::Entry;
use crate::cache::folder::{LONGEST_RECORD, body_name, part_name};

/// Most entries that go for one record, or for the name of a file.
const MOST_FOR_A_FEW_BLOCKS: usize = 16;

/// Bytes of a body for which there is room before any has come.
const FIRST_BYTES: u64 = 64 * 1024;

/// A body that is being written. What is not [kept](Writing::keep) is removed when this is dropped.
#[derive(Debug)]
pub(in crate::cache) struct Writing {
    store: Arc<Store>,
    key: Arc<str>,
    number: u64,
    body: String,
    pub(in crate::cache) file: Arc<File>,
    cost: Cost,
    is_kept: bool,
}

/// How a body takes room. Each time it may take as much again as has come.
#[derive(Clone, Debug)]
pub(in crate::cache) struct Room {
    store: Arc<Store>,
    number: u64,
    file: Arc<File>,
}

impl Store {
    /// A file for the body of an entry, which is promised room; None if others have been promised too much,
    /// it is too large for the budget or the disk, or its head is too long.
    ///
    /// # Errors
    /// What the system says of the file.
    pub(in crate::cache) fn reserve(
        self: &Arc<Store>,
        key: &Arc<str>,
        entry: &Entry,
    ) -> io::Result<Option<Writing>> {
        let cost = Cost::of(entry, key);
        if record_bytes(entry, key) > LONGEST_RECORD {
            return Ok(None);
        }
        let mut index = self.index.lock();
        if !index.claims.promised().with(cost).fits(self.budget) {
            return Ok(None);
        }
        let number = index.next_body();
        index.claims.promise(number, cost, entry.bytes);
        drop(index);
        let body = body_name(key, number);
        let created = self.making_room(key, || self.folder.create_part(&body));
        let file = Arc::new(created.inspect_err(|_| self.index.lock().claims.end(number))?);
        // From here on it is removed if it is not kept.
        let (store, key) = (Arc::clone(self), Arc::clone(key));
        let writing = Writing { store, key, number, body, file, cost, is_kept: false };
        let has_room = self.could_hold(&writing.file, entry.bytes)?
            && writing.room().take(entry.bytes.min(FIRST_BYTES))?;
        Ok(has_room.then_some(writing))
    }

    /// Returns whether the disk has room for what was promised and is not taken yet, if all entries go for
    /// it; and files of so many bytes.
    fn could_hold(&self, file: &File, bytes: u64) -> io::Result<bool> {
        match file.set_len(bytes) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Ok(false),
            result => result?,
        }
        let room = room_for(file)?;
        let index = self.index.lock();
        let awaited = index.claims.promised().without(index.claims.taken());
        Ok(awaited.bytes <= room.saturating_add(index.cost.bytes))
    }

    /// Takes the room on the disk, for which others go if it is full and that is enough; answers whether
    /// there is.
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<bool> {
        loop {
            match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
                Ok(()) => return Ok(true),
                // A file system that cannot reserve says that it is full when a body is written. So it is
                // asked.
                Err(Errno::OPNOTSUPP) if room_for(file)? >= bytes => return Ok(true),
                Err(Errno::NOSPC | Errno::DQUOT | Errno::OPNOTSUPP) => {
                    let could_be_there = room_for(file)?.saturating_add(self.index.lock().cost.bytes);
                    if bytes > could_be_there || !self.evict() {
                        return Ok(false);
                    }
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Does what takes a few blocks of the disk. If that is full, entries go for it, but not that of `key`;
    /// not many, for some other may take what they leave, or they leave nothing as long as a client reads
    /// them.
    pub(super) fn making_room<T>(&self, key: &str, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
        for _ in 0..MOST_FOR_A_FEW_BLOCKS {
            match act() {
                Err(error) if is_full(&error) && self.evict_other(key) => {}
                done => return done,
            }
        }
        act()
    }
}

impl Room {
    /// Up to where a body may take room of which so much has come, and of which there is so much.
    pub(in crate::cache) fn next(come_bytes: u64, whole_bytes: u64) -> u64 {
        come_bytes.saturating_mul(2).max(FIRST_BYTES).min(whole_bytes)
    }

    /// Takes room for so many bytes of the body, for which others go if need be; answers whether there is.
    /// May wait for storage.
    ///
    /// # Errors
    /// What the system says of the file.
    pub(in crate::cache) fn take(&self, bytes: u64) -> io::Result<bool> {
        let store = &self.store;
        loop {
            let mut index = store.index.lock();
            let kept = index.cost;
            match index.claims.take(self.number, bytes, |taken| kept.with(taken).fits(store.budget)) {
                Some(true) => break,
                Some(false) => {}
                None => return Ok(false), // it was given up meanwhile
            }
            drop(index);
            if !store.evict() {
                return Ok(false);
            }
        }
        Ok(bytes == 0 || store.allocate(&self.file, bytes)?)
    }
}

impl Writing {
    /// How it takes more room than there is at first.
    pub(in crate::cache) fn room(&self) -> Room {
        Room { store: Arc::clone(&self.store), number: self.number, file: Arc::clone(&self.file) }
    }

    /// Keeps the body, which is complete, under this head, in place of what was kept of that URL.
    ///
    /// # Errors
    /// What the system says; then nothing is kept.
    pub(in crate::cache) fn keep(mut self, entry: Arc<Entry>) -> io::Result<Arc<Kept>> {
        let folder = &self.store.folder;
        let body_modified_ns = folder.finish_body(&self.file, &self.body)?;
        let record = entry.record(&self.body, body_modified_ns);
        let written = self.store.making_room(&self.key, || folder.write_record(&self.key, &record))?;
        let (key, body, cost) = (Arc::clone(&self.key), self.body.clone(), self.cost);
        let _changing = self.store.changing.lock();
        written.place()?;
        self.is_kept = true;
        let kept = Kept { key, entry, body, body_modified_ns, cost };
        let mut index = self.store.index.lock();
        index.claims.end(self.number);
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
            self.store.index.lock().claims.end(self.number);
        }
    }
}

/// Returns whether it is about the disk, or what this user may have of it.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What a file could grow to on its disk, as that says.
fn room_for(file: &File) -> io::Result<u64> {
    let disk = fstatvfs(file)?;
    // What could not be reserved whole may be reserved in part.
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize).saturating_add(file.metadata()?.blocks() * 512))
}
