//! The folder of a cache on disk: whose it is, who uses it, and what a process that was killed left in it.
//!
//! Names are made of a key, the SHA-256 of a URL in hexadecimal digits, and a number that no other body in
//! the folder has: `KEY.json` (the record), `KEY-NUMBER.body`, and with `.part` behind it what is being
//! written: a record as `KEY-NUMBER.json.part`, with a number of its own. It gets its name when its body is
//! complete and on disk: it is there whole or not at all, and what no record names is rubbish.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use rustix::io::Errno;

use super::entry::{Entry, Record};

/// Says whose folder this is, to us and to programs that leave caches out of backups (bford.info/cachedir).
/// Its lock is held by the process that uses the folder.
const TAG: &str = "CACHEDIR.TAG";

const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
                        # What `wirepath relay --cache` keeps. It may be deleted when no relay runs.\n";

/// Longest record that is kept. A head that makes a longer one is not worth its memory, and passes through.
pub(super) const LONGEST_RECORD: u64 = 16 * 1024;

/// Greatest number of a body. There are never so many; a greater one was made up by somebody else.
pub(super) const GREATEST_NUMBER: u64 = 1 << 53;

/// Why a folder cannot be a cache.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It has files of others. The operator's to name another.
    #[error("{} has files and is no cache of wirepath relay; name a new or an empty folder", .0.display())]
    Foreign(PathBuf),
    /// Another process has it.
    #[error("{} is in use by another wirepath relay; give each a folder of its own", .0.display())]
    InUse(PathBuf),
    /// Something else has its name.
    #[error("{} is no folder, and a cache takes one; name a new or an empty folder", .0.display())]
    NoFolder(PathBuf),
    /// It cannot be made.
    #[error("cannot make the cache folder {}: {source}", folder.display())]
    Unmade {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be read or written.
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
    /// Records written so far: two of one key, which may be written at a time, have each a file of its own.
    records: AtomicU64,
    _lock: File,
}

/// A record that is written and has not its name yet. It is removed if this is dropped before it is
/// [placed](Written::place).
pub(super) struct Written<'a> {
    folder: &'a Folder,
    part: String,
    name: String,
    is_placed: bool,
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
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => FolderError::NoFolder(path.to_owned()),
            _ => FolderError::Unmade { folder: path.to_owned(), source },
        })?;
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
            Ok(()) => Ok(Folder { path: path.to_owned(), records: AtomicU64::new(0), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(FolderError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// The entries, oldest first. Removes what is damaged or unfinished, and answers how many damaged ones
    /// there were; files with names that are none of ours stay.
    pub(super) fn sweep(&self) -> Result<(Vec<Found>, u64), FolderError> {
        let failed = |source| FolderError::Io { folder: self.path.clone(), source };
        let (mut found, mut bodies, mut damaged) = (Vec::new(), Vec::new(), 0);
        for item in fs::read_dir(&self.path).map_err(failed)? {
            let Ok(name) = item.map_err(failed)?.file_name().into_string() else { continue };
            match Name::of(&name) {
                Some(Name::Record(key)) => {
                    match self.load(key).map_err(|error| failed(about(&name, error)))? {
                        Some(entry) => found.push(entry),
                        None => {
                            damaged += 1;
                            self.remove(&name);
                        }
                    }
                }
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

    /// An entry; None if it is damaged.
    fn load(&self, key: &str) -> io::Result<Option<Found>> {
        let path = self.path.join(record_name(key));
        let known = fs::symlink_metadata(&path)?;
        if !known.is_file() || known.len() > LONGEST_RECORD {
            return Ok(None);
        }
        let Some(record) = Record::read(&fs::read(path)?) else { return Ok(None) };
        let is_its_own = matches!(Name::of(&record.body), Some(Name::Body)) && record.body.starts_with(key);
        if !is_its_own {
            return Ok(None);
        }
        let (body, body_modified_ns) = (record.body.clone(), record.body_modified_ns);
        match self.open_body(&body, record.bytes, body_modified_ns) {
            Ok(_) => {}
            Err(error) if is_damage(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        let (key, written) = (key.to_owned(), known.modified()?);
        Ok(record.entry().map(|entry| Found { key, body, entry, body_modified_ns, written }))
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
        // Records hold the time of its last change, which is to be on disk too.
        file.sync_all()?;
        fs::rename(self.path.join(part_name(body)), self.path.join(body))?;
        Ok(modified(&file.metadata()?))
    }

    /// Writes a record beside the one there is. May be called for one key by several at a time.
    pub(super) fn write_record(&self, key: &str, record: &Record) -> io::Result<Written<'_>> {
        let (number, name) = (self.records.fetch_add(1, Relaxed), record_name(key));
        let part = part_name(&format!("{key}-{number}.json"));
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(self.path.join(&part))?;
        // From here on it is removed if it is not placed.
        let written = Written { folder: self, part, name, is_placed: false };
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_data()?;
        Ok(written)
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

impl Written<'_> {
    /// Puts it in place of the record that there is of its key.
    pub(super) fn place(mut self) -> io::Result<()> {
        let path = &self.folder.path;
        fs::rename(path.join(&self.part), path.join(&self.name))?;
        self.is_placed = true;
        Ok(())
    }
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        if !self.is_placed {
            self.folder.remove(&self.part);
        }
    }
}

/// Returns whether a file is not what it was. All else, such as a want of descriptors, says nothing about it.
pub(super) fn is_damage(error: &io::Error) -> bool {
    // What `O_NOFOLLOW` says of a link.
    let is_link = Errno::from_io_error(error) == Some(Errno::LOOP);
    is_link || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
}

fn about(name: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

/// Name of a body with this number, no two of which have one.
pub(super) fn body_name(key: &str, number: u64) -> String {
    format!("{key}-{number}.body")
}

/// Number of a body, by its name.
pub(super) fn body_number(name: &str) -> Option<u64> {
    number_before(".body", name).filter(|number| *number <= GREATEST_NUMBER)
}

fn number_before(ending: &str, name: &str) -> Option<u64> {
    name.strip_suffix(ending)?.split_once('-')?.1.parse().ok()
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
            ".json.part" => Some(Name::Part), // as they were called once
            rest if number_before(".json.part", rest).is_some() => Some(Name::Part),
            rest if body_number(rest).is_some() => Some(Name::Body),
            rest if rest.strip_suffix(".part").and_then(body_number).is_some() => Some(Name::Part),
            _ => None,
        }
    }
}
