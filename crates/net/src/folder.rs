//! Served folder: files by path, confined to the folder by the kernel (`openat2`, Linux 5.6).
//!
//! Names that begin with a dot are neither listed nor served.

use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use http::StatusCode;
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;
use wirepath_http::{AssetPath, EntityTag};

/// Maximum number of attempts of a lookup that met a rename elsewhere in the tree (openat2(2), EAGAIN).
const TRIES: usize = 16;

/// Maximum number of names in a listing.
const MOST_NAMES: usize = 10_000;

/// Symbolic links cannot leave the folder.
const CONFINED: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// Folder, held open.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// Folder that cannot be served, a fault of the operator.
#[derive(Debug)]
pub struct FolderError(PathBuf, Errno);

/// Error of a path that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindError {
    /// No file of this name, or a file that is not served.
    NotFound,
    /// File that this user may not read.
    Forbidden,
    /// Too many open files.
    Exhausted,
    /// Other error of the kernel.
    Failed(Errno),
}

/// Target of a path.
pub enum Found {
    /// File.
    File(StoredFile),
    /// Folder.
    Folder,
}

/// File, and the metadata at the time of opening.
#[derive(Debug)]
pub struct StoredFile {
    /// Open file.
    pub file: File,
    /// Size.
    pub size: u64,
    /// Time of the last modification, in seconds since 1970.
    pub modified_s: u64,
    version: String,
}

/// Entry of a listing.
pub struct Entry {
    /// Name.
    pub name: Vec<u8>,
    /// True for a folder.
    pub is_folder: bool,
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// [`FolderError`] if the folder cannot be read, or the kernel cannot confine paths to it.
    pub fn open(path: &Path) -> Result<Folder, FolderError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty()).and_then(|folder| {
            openat2(&folder, ".", READ, Mode::empty(), CONFINED)?;
            Ok(Folder(folder))
        });
        opened.map_err(|errno| FolderError(path.to_owned(), errno))
    }

    /// Opens a file whose name is in the kernel's cache (`RESOLVE_CACHED`, Linux 5.12).
    pub fn find_cached(&self, path: &AssetPath) -> Option<StoredFile> {
        if is_hidden(path) || path.is_root() {
            return None;
        }
        let flags = CONFINED | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        let opened = openat2(&self.0, path.as_bytes(), READ, Mode::empty(), flags).ok()?;
        match found(opened) {
            Ok(Found::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Opens the target of a path. May block.
    pub fn find(&self, path: &AssetPath) -> Result<Found, FindError> {
        found(self.resolve(path)?)
    }

    /// Lists a folder, sorted by name; a large folder is cut to the names that the file system returns first.
    /// May block.
    pub fn list(&self, path: &AssetPath) -> Result<Vec<Entry>, FindError> {
        let folder = Dir::new(self.resolve(path)?).map_err(FindError::of)?;
        let mut entries = Vec::new();
        for entry in folder.take(MOST_NAMES) {
            let entry = entry.map_err(FindError::of)?;
            let name = entry.file_name().to_bytes();
            let kind = entry.file_type();
            if !name.starts_with(b".") && matches!(kind, FileType::RegularFile | FileType::Directory) {
                entries.push(Entry { name: name.to_owned(), is_folder: kind == FileType::Directory });
            }
        }
        entries.sort_by(|a, b| (!a.is_folder, &a.name).cmp(&(!b.is_folder, &b.name)));
        Ok(entries)
    }

    fn resolve(&self, path: &AssetPath) -> Result<OwnedFd, FindError> {
        if is_hidden(path) {
            return Err(FindError::NotFound);
        }
        let path = if path.is_root() { b"." } else { path.as_bytes() };
        for _ in 0..TRIES {
            match openat2(&self.0, path, READ, Mode::empty(), CONFINED) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened.map_err(FindError::of),
            }
        }
        Err(FindError::of(Errno::AGAIN))
    }
}

fn found(opened: OwnedFd) -> Result<Found, FindError> {
    let stat = fstat(&opened).map_err(FindError::of)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Found::File(StoredFile::new(opened.into(), &stat))),
        FileType::Directory => Ok(Found::Folder),
        _ => Err(FindError::NotFound),
    }
}

fn is_hidden(path: &AssetPath) -> bool {
    path.segments().any(|name| name.starts_with(b"."))
}

impl StoredFile {
    fn new(file: File, stat: &Stat) -> StoredFile {
        let version =
            format!("{:x}-{:x}.{:x}-{:x}", stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ino);
        let modified_s = u64::try_from(stat.st_mtime).unwrap_or(0);
        StoredFile { file, size: stat.st_size.unsigned_abs(), modified_s, version }
    }

    /// Tag of content made from this version of the file by these steps.
    pub fn tag(&self, steps: &str) -> EntityTag {
        EntityTag::strong(&format!("{}{steps}", self.version))
    }
}

impl fmt::Display for FolderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FolderError(path, errno) = self;
        write!(formatter, "cannot serve {}: ", path.display())?;
        match *errno {
            Errno::NOENT => formatter.write_str("there is no such folder; check its name"),
            Errno::NOTDIR => formatter.write_str("it is not a folder; name a folder"),
            Errno::ACCESS => formatter
                .write_str("permission denied; let this user read and search it, or name another folder"),
            Errno::NOSYS => formatter.write_str("the kernel has no openat2; use Linux 5.6 or later"),
            Errno::PERM => formatter.write_str(
                "openat2 is not permitted; allow it in the seccomp profile of the container or service",
            ),
            Errno::MFILE | Errno::NFILE => {
                write!(formatter, "{errno}; raise the limit of open files (ulimit -n)")
            }
            errno => write!(formatter, "{errno}; name another folder"),
        }
    }
}

impl std::error::Error for FolderError {}

impl fmt::Display for FindError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FindError::NotFound => formatter.write_str("no such file"),
            FindError::Forbidden => {
                formatter.write_str("the server may not read this file: check its permissions")
            }
            FindError::Exhausted => {
                formatter.write_str("the server has too many files open: try again later")
            }
            FindError::Failed(errno) => write!(formatter, "the file cannot be read: {errno}"),
        }
    }
}

impl std::error::Error for FindError {}

impl FindError {
    fn of(errno: Errno) -> FindError {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => FindError::NotFound,
            // A link that leaves the folder, a loop of links, a socket, a device without a driver.
            Errno::XDEV | Errno::LOOP | Errno::NXIO | Errno::NODEV => FindError::NotFound,
            Errno::ACCESS | Errno::PERM => FindError::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => FindError::Exhausted,
            errno => FindError::Failed(errno),
        }
    }

    /// Status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            FindError::NotFound => StatusCode::NOT_FOUND,
            FindError::Forbidden => StatusCode::FORBIDDEN,
            FindError::Exhausted => StatusCode::SERVICE_UNAVAILABLE,
            FindError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each error says what to do about it.
    #[test]
    fn a_folder_that_cannot_be_served_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clip.ts");
        std::fs::write(&file, b"").unwrap();
        let error = |path: &Path| Folder::open(path).unwrap_err().to_string();
        let missing = error(&folder.path().join("nope"));
        assert!(missing.ends_with("nope: there is no such folder; check its name"), "{missing}");
        let not_a_folder = error(&file);
        assert!(not_a_folder.ends_with("clip.ts: it is not a folder; name a folder"), "{not_a_folder}");
        for (errno, words) in [
            (Errno::ACCESS, "permission denied"),
            (Errno::NOSYS, "Linux 5.6 or later"),
            (Errno::PERM, "seccomp"),
            (Errno::MFILE, "ulimit -n"),
            (Errno::IO, "name another folder"),
        ] {
            let error = FolderError(file.clone(), errno).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
