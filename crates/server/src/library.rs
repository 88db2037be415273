//! The files that are served, as one tree of names.
//!
//! One served folder is the root of the tree. Several folders or files stand below the root under their own
//! names. Nothing outside the served folders can be reached, by any path or symbolic link: every name is
//! resolved by `openat2` with `RESOLVE_BENEATH` (Linux 5.6), so that there is no moment between a check and a
//! use. Names that begin with a dot are neither listed nor served: people and programs use them for private
//! files (`.git`, half-written downloads, caches).
//!
//! All functions but `find_cached` and `version` may wait for a disk: call them where that is allowed.

mod asset;
mod folded;
mod listing;
mod resolve;

pub(crate) use asset::{Asset, Version, identity};
pub(crate) use listing::{Entry, EntryKind, FolderListing, LISTING_LIMIT};

use http::StatusCode;
use resolve::ServedFolder;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wirepath_http::AssetPath;

/// The served files and folders.
#[derive(Debug)]
pub struct Library {
    tree: Tree,
}

#[derive(Debug)]
enum Tree {
    /// One folder, which is the root.
    Root(ServedFolder),
    /// Folders and files below the root, by name.
    Named(BTreeMap<OsString, Served>),
}

#[derive(Debug)]
struct Served {
    /// Path as given, for messages.
    given: PathBuf,
    folder: ServedFolder,
    /// The one file of the folder that is served; none if the whole folder is served.
    file: Option<OsString>,
}

/// Paths that cannot be served. The user has to start again with other paths.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// No path at all.
    #[error("nothing to serve: name at least one folder or file")]
    Nothing,
    /// A path cannot be opened.
    #[error("cannot serve {path}: {1}", path = .0.display())]
    Open(PathBuf, std::io::Error),
    /// A path leads to a device, a socket or a pipe.
    #[error("cannot serve {}: not a folder or regular file", .0.display())]
    Special(PathBuf),
    /// There are several paths, and one of them has no name under which it could appear.
    #[error("cannot serve {} beside others: it has no name to appear under", .0.display())]
    Nameless(PathBuf),
    /// Two paths would appear under one name.
    #[error(
        "{} and {} would both appear as /{}; rename one or serve the folder above them",
        .0.display(), .1.display(), .2.display()
    )]
    Clash(PathBuf, PathBuf, OsString),
    /// The kernel has no `openat2`, or a sandbox forbids it.
    #[error(
        "cannot confine paths to {path}: openat2 answers `{1}`; it needs Linux 5.6, and a sandbox must allow it \
         (containers; in systemd, RestrictSUIDSGID= and DynamicUser= forbid it)",
        path = .0.display()
    )]
    NoOpenat2(PathBuf, std::io::Error),
}

/// A path that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FindError {
    /// Missing, or not served: hidden, special, or behind a link that leaves the served folder.
    #[error("no such file")]
    NotFound,
    /// The server has no permission to read it.
    #[error("the server may not read this file: check its permissions")]
    Forbidden,
    /// Too many files are open: the limit (`ulimit -n`) is too low.
    #[error("the server has too many files open: try again later")]
    Exhausted,
    /// The disk or the file system failed.
    #[error("the file cannot be read: {0}")]
    Io(Errno),
}

impl FindError {
    /// The HTTP status to answer with.
    pub(crate) fn http_status(self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Exhausted => StatusCode::SERVICE_UNAVAILABLE,
            Self::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Target of a path.
#[derive(Debug)]
pub(crate) enum Found {
    /// A file, open for reading.
    File(Asset),
    /// A folder, which can be [listed](Library::list).
    Folder,
}

impl Library {
    /// Opens the folders and files to serve.
    pub fn open(paths: &[PathBuf]) -> Result<Self, LibraryError> {
        let mut served = paths.iter().map(|path| Served::open(path)).collect::<Result<Vec<_>, _>>()?;
        let tree = match &served[..] {
            [] => return Err(LibraryError::Nothing),
            [Served { file: None, .. }] => Tree::Root(served.remove(0).folder),
            _ => Tree::Named(by_name(served)?),
        };
        Ok(Self { tree })
    }

    /// Finds what a path names and opens it if it is a file.
    pub(crate) fn find(&self, path: &AssetPath) -> Result<Found, FindError> {
        match self.locate(path)? {
            Location::Top(_) => Ok(Found::Folder),
            Location::Below(folder, path) => folder.find(path),
        }
    }

    /// The file that a path names, if it can be opened without waiting for storage.
    pub(crate) fn find_cached(&self, path: &AssetPath) -> Option<Asset> {
        match self.locate(path).ok()? {
            Location::Below(folder, rest) if !path.names_folder() => folder.find_cached(rest),
            Location::Top(_) | Location::Below(..) => None,
        }
    }

    /// Version of the file that a path names now. Symbolic links are followed, also out of the served
    /// folders, since the version is only compared with that of a file that
    /// [`find_cached`](Self::find_cached) opened by this path. Waits for storage only if names were changed
    /// meanwhile or the path has symbolic links, since an open file keeps its own names in the kernel's
    /// cache.
    pub(crate) fn version(&self, path: &AssetPath) -> Option<Version> {
        match self.locate(path).ok()? {
            Location::Below(folder, rest) => folder.version(rest),
            Location::Top(_) => None,
        }
    }

    /// Finds a file and opens it. Returns "not found" for a folder, also if the path requests it as a file.
    pub(crate) fn find_file(&self, path: &AssetPath) -> Result<Asset, FindError> {
        match self.find(path)? {
            Found::File(asset) if !path.names_folder() => Ok(asset),
            Found::File(_) | Found::Folder => Err(FindError::NotFound),
        }
    }

    /// Finds a file whose path differs from this one only in letter case, if exactly one does; returns its
    /// path, too. Reads all names of the folders.
    pub(crate) fn find_file_in_other_case(&self, path: &AssetPath) -> Result<(AssetPath, Asset), FindError> {
        if path.names_folder() {
            return Err(FindError::NotFound);
        }
        let path = self.unfold(path)?;
        self.find_file(&path).map(|asset| (path, asset))
    }

    /// Returns whether a path names a folder or file, in any letter case.
    pub(crate) fn has(&self, path: &AssetPath) -> bool {
        self.find(path).is_ok() || self.unfold(path).is_ok_and(|path| self.find(&path).is_ok())
    }

    /// Calls a function with each name in a folder, in no order, until it breaks.
    pub(crate) fn names(
        &self,
        path: &AssetPath,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), FindError> {
        match self.locate(path)? {
            Location::Top(named) => {
                _ = named.keys().try_for_each(|name| each(name.as_bytes()));
                Ok(())
            }
            Location::Below(folder, path) => folder.names(path, each),
        }
    }

    /// Version of a folder in a served folder, which changes when names are added or removed. After an error
    /// other than [`FindError::NotFound`], the folder may still be there.
    pub(crate) fn folder_version(&self, path: &AssetPath) -> Result<Version, FindError> {
        match self.locate(path)? {
            Location::Below(folder, rest) => folder.folder_version(rest),
            Location::Top(_) => Err(FindError::NotFound),
        }
    }

    /// Lists a folder.
    pub(crate) fn list(&self, path: &AssetPath) -> Result<FolderListing, FindError> {
        match self.locate(path)? {
            Location::Top(named) => Ok(listing::top(named)),
            Location::Below(folder, path) => folder.list(path),
        }
    }

    fn locate<'a>(&'a self, path: &'a AssetPath) -> Result<Location<'a>, FindError> {
        let named = match &self.tree {
            Tree::Root(folder) => return Ok(Location::Below(folder, path.as_bytes())),
            Tree::Named(named) if path.is_root() => return Ok(Location::Top(named)),
            Tree::Named(named) => named,
        };
        let (name, rest) = split_first(path.as_bytes());
        let served = named.get(OsStr::from_bytes(name)).ok_or(FindError::NotFound)?;
        match (&served.file, rest) {
            (None, rest) => Ok(Location::Below(&served.folder, rest)),
            (Some(file), b"") => Ok(Location::Below(&served.folder, file.as_bytes())),
            (Some(_), _) => Err(FindError::NotFound),
        }
    }
}

/// Target of a path in the tree.
enum Location<'a> {
    /// To the root above several.
    Top(&'a BTreeMap<OsString, Served>),
    /// To a path below a served folder.
    Below(&'a ServedFolder, &'a [u8]),
}

impl Served {
    /// Opens a path. Symbolic links in the given path are followed, since the user chose it.
    fn open(given: &Path) -> Result<Self, LibraryError> {
        let failed = |source| LibraryError::Open(given.to_owned(), source);
        let real = given.canonicalize().map_err(failed)?;
        let kind = real.metadata().map_err(failed)?;
        let (folder, file) = if kind.is_dir() {
            (real, None)
        } else if kind.is_file() {
            let file = real.file_name().map(OsStr::to_owned);
            (real.parent().unwrap_or(Path::new("/")).to_owned(), file)
        } else {
            return Err(LibraryError::Special(given.to_owned()));
        };
        let folder = ServedFolder::open(&folder, file.as_deref()).map_err(|errno| match errno {
            // A sandbox that does not know openat2 answers EPERM.
            Errno::NOSYS | Errno::PERM => LibraryError::NoOpenat2(given.to_owned(), errno.into()),
            errno => failed(errno.into()),
        })?;
        Ok(Self { given: given.to_owned(), folder, file })
    }

    /// Last component of the given path; if that is `.`, `..` or missing, of the resolved path.
    fn name(&self) -> Result<OsString, LibraryError> {
        let real = || self.given.canonicalize().ok()?.file_name().map(OsStr::to_owned);
        let name = self.given.file_name().map(OsStr::to_owned).or_else(real);
        name.ok_or_else(|| LibraryError::Nameless(self.given.clone()))
    }
}

fn by_name(served: Vec<Served>) -> Result<BTreeMap<OsString, Served>, LibraryError> {
    let mut named = BTreeMap::new();
    for second in served {
        let name = second.name()?;
        if let Some(Served { given: first, .. }) = named.remove(&name) {
            return Err(LibraryError::Clash(first, second.given, name));
        }
        named.insert(name, second);
    }
    Ok(named)
}

/// Returns whether a name is hidden from clients.
fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".")
}

fn split_first(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, b""),
    }
}

#[cfg(test)]
mod tests;
