//! The folder of a cache on disk: whose it is, who uses it, and what a process that was killed left in it.
//!
//! Names are made of a key, the SHA-256 of a URL in hexadecimal digits, and a number that no other body in the folder has:
//! `KEY.json` (the record), `KEY-NUMBER.body`, and with `.part` behind it what is being written. A record is written under its own name
//! by renaming, when its body is complete and on disk: it is there whole or not at all, and what no record names is rubbish.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::entry::{Entry, Record};

/// Says whose folder this is, to us and to programs that leave caches out of backups (bford.info/cachedir). Its lock is held by the
/// process that uses the folder.
const TAG: &str = "CACHEDIR.TAG";

const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
                        # What `wirepath relay --cache` keeps. It may be deleted when no relay runs.\n";

/// Longest record that is read: a head of 16 KiB, each byte as an escape of six at most, and the rest.
const LONGEST_RECORD: u64 = 256 * 1024;

/// Why a folder cannot be a cache.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It has files of others. The operator's to name another.
    #[error("{} has files and is no cache of wirepath relay; name a new or an empty folder", .0.display())]
    Foreign(PathBuf),
    /// Another process has it.
    #[error("{} is in use by another wirepath relay; give each a folder of its own", .0.display())]
    InUse(PathBuf),
    /// It cannot be made, read or written.
    #[error("cannot use the cache folder {}: {source}", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A folder that is ours as long as this lives.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

/// What is found in a folder.
pub(super) struct Found {
    pub(super) key: String,
    pub(super) body: String,
    pub(super) entry: Entry,
    pub(super) body_modified_ns: u64,
    /// When its record was written.
    pub(super) written: SystemTime,
}

impl Folder {
    /// Makes the folder if need be, and locks it.
    pub(super) fn open(path: &Path) -> Result<Folder, FolderError> {
        let failed = |source| FolderError::Io { folder: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let tag = path.join(TAG);
        if !tag.exists() {
            if fs::read_dir(path).map_err(failed)?.next().is_some() {
                return Err(FolderError::Foreign(path.to_owned()));
            }
            fs::write(&tag, TAG_TEXT).map_err(failed)?;
        }
        let lock = OpenOptions::new().read(true).write(true).open(&tag).map_err(failed)?;
        if fs::read(&tag).map_err(failed)? != TAG_TEXT.as_bytes() {
            return Err(FolderError::Foreign(path.to_owned()));
        }
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(FolderError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// The entries, oldest first. Removes what is damaged or unfinished, and answers how many damaged ones there were; files with
    /// names that are none of ours stay.
    pub(super) fn sweep(&self) -> Result<(Vec<Found>, u64), FolderError> {
        let failed = |source| FolderError::Io { folder: self.path.clone(), source };
        let (mut found, mut bodies, mut damaged) = (Vec::new(), Vec::new(), 0);
        for item in fs::read_dir(&self.path).map_err(failed)? {
            let Ok(name) = item.map_err(failed)?.file_name().into_string() else { continue };
            match Name::of(&name) {
                Some(Name::Record(key)) => match self.load(key) {
                    Some(entry) => found.push(entry),
                    None => {
                        damaged += 1;
                        self.remove(&name);
                    }
                },
                Some(Name::Body) => bodies.push(name),
                Some(Name::Part) => self.remove(&name),
                None if name == TAG => {}
                None => tracing::warn!(name, "a file in the cache folder is not of the cache; it stays"),
            }
        }
        let known: std::collections::HashSet<&str> = found.iter().map(|found| found.body.as_str()).collect();
        bodies.iter().filter(|body| !known.contains(body.as_str())).for_each(|body| self.remove(body));
        found.sort_by_key(|found| found.written);
        Ok((found, damaged))
    }

    fn load(&self, key: &str) -> Option<Found> {
        let path = self.path.join(record_name(key));
        let known = fs::symlink_metadata(&path)
            .ok()
            .filter(|known| known.is_file() && known.len() <= LONGEST_RECORD)?;
        let record = Record::read(&fs::read(path).ok()?)?;
        let is_its_own = matches!(Name::of(&record.body), Some(Name::Body)) && record.body.starts_with(key);
        let (body, bytes, body_modified_ns) = (record.body.clone(), record.bytes, record.body_modified_ns);
        if !is_its_own || self.open_body(&body, bytes, body_modified_ns).is_err() {
            return None;
        }
        let entry = record.entry()?;
        Some(Found { key: key.to_owned(), body, entry, body_modified_ns, written: known.modified().ok()? })
    }

    /// Opens a body, which must be as it was when its record was written.
    ///
    /// # Errors
    /// What the system says; `InvalidData` if it is not.
    pub(super) fn open_body(&self, name: &str, bytes: u64, modified_ns: u64) -> io::Result<File> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.path.join(name))?;
        let known = file.metadata()?;
        if known.is_file() && known.len() == bytes && modified(&known) == modified_ns {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "it was changed since it was kept"))
    }

    /// A new file for a body, to be read as well.
    pub(super) fn create_part(&self, body: &str) -> io::Result<File> {
        let path = self.path.join(part_name(body));
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
    }

    /// Puts a body that is complete under its own name; answers when it was last written. It is on disk then.
    pub(super) fn finish_body(&self, file: &File, body: &str) -> io::Result<u64> {
        file.sync_data()?;
        fs::rename(self.path.join(part_name(body)), self.path.join(body))?;
        Ok(modified(&file.metadata()?))
    }

    /// Writes a record in place of the one there is.
    pub(super) fn write_record(&self, key: &str, record: &Record) -> io::Result<()> {
        let name = record_name(key);
        let part = self.path.join(part_name(&name));
        let written = (|| {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_data()?;
            fs::rename(&part, self.path.join(&name))
        })();
        if written.is_err() {
            self.remove(&part_name(&name));
        }
        written
    }

    /// Removes an entry: the record first, so that it never names a body that is not there.
    pub(super) fn remove_entry(&self, key: &str, body: &str) {
        self.remove(&record_name(key));
        self.remove(body);
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) {
        if let Err(error) = fs::remove_file(self.path.join(name))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(name, %error, "a file of the cache could not be removed");
        }
    }
}

/// Name of a body with this number, no two of which have one.
pub(super) fn body_name(key: &str, number: u64) -> String {
    format!("{key}-{number}.body")
}

/// Number of a body, by its name.
pub(super) fn body_number(name: &str) -> Option<u64> {
    name.strip_suffix(".body")?.split_once('-')?.1.parse().ok()
}

fn record_name(key: &str) -> String {
    format!("{key}.json")
}

/// Name of a file while it is written.
pub(super) fn part_name(name: &str) -> String {
    format!("{name}.part")
}

fn modified(known: &fs::Metadata) -> u64 {
    (known.mtime() as u64).wrapping_mul(1_000_000_000).wrapping_add(known.mtime_nsec() as u64)
}

/// What a name says.
enum Name<'a> {
    Record(&'a str),
    Body,
    Part,
}

impl Name<'_> {
    fn of(name: &str) -> Option<Name<'_>> {
        let key =
            name.get(..64).filter(|key| key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))?;
        match &name[64..] {
            ".json" => Some(Name::Record(key)),
            ".json.part" => Some(Name::Part),
            rest if body_number(rest).is_some() => Some(Name::Body),
            rest if rest.strip_suffix(".part").and_then(body_number).is_some() => Some(Name::Part),
            _ => None,
        }
    }
}
