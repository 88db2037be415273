//! Folder of a cache: its lock, its files, and the removal of files that a killed process left.
//!
//! File names contain a key, the SHA-256 of a URL in hexadecimal digits, and a number that is unique in the
//! folder: `KEY.json` (the record) and `KEY-NUMBER.body`. Names of files that are being written end with
//! `.part`; a record is then `KEY-NUMBER.json.part`, with a number of its own. A record gets its final name
//! when its body is complete and on disk. Bodies without a record are removed at the start.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use rustix::io::Errno;
use tempfile::TempPath;

use super::entry::{Entry, Record};

/// Tag of the folder, which also excludes it from backups (bford.info/cachedir). The process that uses the
/// folder locks this file.
const TAG: &str = "CACHEDIR.TAG";

const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
                        # What `wirepath relay --cache` keeps. It may be deleted when no relay runs.\n";

/// Maximum length of a record. Responses with a longer record pass through.
pub(super) const MAX_RECORD_BYTES: u64 = 16 * 1024;

/// Maximum number of a body. No cache reaches it, so a greater number is forged.
pub(super) const MAX_BODY_NUMBER: u64 = 1 << 53;

/// Error of opening a cache folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder has other files.
    #[error("{} is not a cache folder of wirepath relay; name a new or an empty folder", .0.display())]
    NotACache(PathBuf),
    /// Another process uses the folder.
    #[error("{} is in use by another wirepath relay; give each relay its own folder", .0.display())]
    InUse(PathBuf),
    /// The path is not a folder.
    #[error("{} is not a folder; name a new or an empty folder", .0.display())]
    NotADirectory(PathBuf),
    /// The folder cannot be created, read or written.
    #[error("cannot use the cache folder {path}: {1}; name another with --cache DIR", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
}

/// Folder of a cache, locked until this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Number of records written so far. Two records of one key may be written at the same time, to different
    /// files.
    records: AtomicU64,
    _lock: File,
}

pub(super) struct Found {
    pub(super) key: String,
    pub(super) body: String,
    pub(super) entry: Entry,
    pub(super) body_modified_ns: u64,
    /// Time at which the record was written.
    pub(super) written: SystemTime,
}

impl Folder {
    /// Creates the folder if it does not exist, and locks it.
    pub(super) fn open(path: &Path) -> Result<Folder, FolderError> {
        let failed = |error| FolderError::Io(path.to_owned(), error);
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => FolderError::NotADirectory(path.to_owned()),
            _ => failed(source),
        })?;
        let tag = path.join(TAG);
        if !tag.exists() {
            if fs::read_dir(path).map_err(failed)?.next().is_some() {
                return Err(FolderError::NotACache(path.to_owned()));
            }
            fs::write(&tag, TAG_TEXT).map_err(failed)?;
        }
        let lock = OpenOptions::new().read(true).write(true).open(&tag).map_err(failed)?;
        if fs::read(&tag).map_err(failed)? != TAG_TEXT.as_bytes() {
            return Err(FolderError::NotACache(path.to_owned()));
        }
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path: path.to_owned(), records: AtomicU64::new(0), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(FolderError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Returns the entries, oldest first, and the number of damaged ones. Removes damaged and unfinished
    /// files; files with other names stay.
    pub(super) fn scan(&self) -> Result<(Vec<Found>, u64), FolderError> {
        let failed = |error| FolderError::Io(self.path.clone(), error);
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
                None => tracing::warn!(name, "foreign file in the cache folder; ignoring it"),
            }
        }
        let known: std::collections::HashSet<&str> = found.iter().map(|found| found.body.as_str()).collect();
        bodies.iter().filter(|body| !known.contains(body.as_str())).for_each(|body| self.remove(body));
        found.sort_by_key(|found| found.written);
        Ok((found, damaged))
    }

    /// Reads an entry; None if it is damaged.
    fn load(&self, key: &str) -> io::Result<Option<Found>> {
        let path = self.path.join(record_name(key));
        let known = fs::symlink_metadata(&path)?;
        if !known.is_file() || known.len() > MAX_RECORD_BYTES {
            return Ok(None);
        }
        let Some(record) = Record::read(&fs::read(path)?) else { return Ok(None) };
        if !matches!(Name::of(&record.body), Some(Name::Body)) || !record.body.starts_with(key) {
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

    /// Opens a body. Fails with `InvalidData` if the body was changed since its record was written.
    pub(super) fn open_body(&self, name: &str, bytes: u64, modified_ns: u64) -> io::Result<File> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.path.join(name))?;
        let known = file.metadata()?;
        if known.is_file() && known.len() == bytes && modified(&known) == modified_ns {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "file changed since it was stored"))
    }

    /// Creates the file of a body, open for reading and writing.
    pub(super) fn create_part(&self, body: &str) -> io::Result<File> {
        let path = self.path.join(part_name(body));
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
    }

    /// Syncs a complete body and renames its file. Returns the time of its last change.
    pub(super) fn finish_body(&self, file: &File, body: &str) -> io::Result<u64> {
        // Syncs metadata, too: records contain the time of the last change.
        file.sync_all()?;
        fs::rename(self.path.join(part_name(body)), self.path.join(body))?;
        Ok(modified(&file.metadata()?))
    }

    /// Writes a record to a temporary file.
    pub(super) fn write_record(&self, key: &str, record: &Record) -> io::Result<TempPath> {
        let number = self.records.fetch_add(1, Relaxed);
        let part = self.path.join(part_name(&format!("{key}-{number}.json")));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        let written = TempPath::try_from_path(part)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_data()?;
        Ok(written)
    }

    /// Renames a written record to its final name, and replaces a previous record.
    pub(super) fn place_record(&self, key: &str, written: TempPath) -> io::Result<()> {
        written.persist(self.path.join(record_name(key))).map_err(|error| error.error)
    }

    /// Removes an entry. The record is removed first, so that no record names a missing body.
    pub(super) fn remove_entry(&self, key: &str, body: &str) {
        self.remove(&record_name(key));
        self.remove(body);
    }

    pub(super) fn remove(&self, name: &str) {
        if let Err(error) = fs::remove_file(self.path.join(name))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(name, %error, "cannot remove a file of the cache");
        }
    }
}

/// Returns whether an error means that a file is damaged. Other errors, such as a lack of descriptors, do
/// not.
pub(super) fn is_damage(error: &io::Error) -> bool {
    // `O_NOFOLLOW` fails with this error.
    let is_link = Errno::from_io_error(error) == Some(Errno::LOOP);
    is_link || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
}

fn about(name: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

pub(super) fn body_name(key: &str, number: u64) -> String {
    format!("{key}-{number}.body")
}

pub(super) fn body_number(name: &str) -> Option<u64> {
    number_before(".body", name).filter(|number| *number <= MAX_BODY_NUMBER)
}

fn number_before(ending: &str, name: &str) -> Option<u64> {
    name.strip_suffix(ending)?.split_once('-')?.1.parse().ok()
}

fn record_name(key: &str) -> String {
    format!("{key}.json")
}

/// Name of a file while it is being written.
pub(super) fn part_name(name: &str) -> String {
    format!("{name}.part")
}

fn modified(known: &fs::Metadata) -> u64 {
    (known.mtime() as u64).wrapping_mul(1_000_000_000).wrapping_add(known.mtime_nsec() as u64)
}

/// Kind of a file, by its name.
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
            rest if number_before(".json.part", rest).is_some() => Some(Name::Part),
            rest if body_number(rest).is_some() => Some(Name::Body),
            rest if rest.strip_suffix(".part").and_then(body_number).is_some() => Some(Name::Part),
            _ => None,
        }
    }
}
