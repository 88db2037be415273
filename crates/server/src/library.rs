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
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wirepath_http::AssetPath;

/// The served files and folders.
#[derive(Debug)]
pub struct Library {
    tree: Tree,
    number: u64,
}

#[derive(Debug)]
enum Tree {
    /// One folder, which is the root.
    Root(Arc<Served>),
    /// Folders and files below the root, by name.
    Named(BTreeMap<OsString, Arc<Served>>),
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
    #[error("cannot serve {path}: {1}; name folders and files that this user may read", path = .0.display())]
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

impl LibraryError {
    /// Returns whether the server lacks the permission to open the path (EACCES).
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Open(_, error) if error.kind() == std::io::ErrorKind::PermissionDenied)
    }
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
    /// The folders of an archive are being read for the first time.
    #[error("the folders of this archive are still being read: try again later")]
    Unread,
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
            Self::Exhausted | Self::Unread => StatusCode::SERVICE_UNAVAILABLE,
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
        Self::open_like(paths, &Self::empty())
    }

    /// Opens the folders and files to serve. Those that another library serves by the same paths are not
    /// opened again, unless the paths lead to other folders now.
    pub(crate) fn open_like(paths: &[PathBuf], other: &Self) -> Result<Self, LibraryError> {
        let open = |path: &PathBuf| match other.served().find(|served| served.given == *path) {
            Some(served) if served.is_in_place() => Ok(Arc::clone(served)),
            Some(served) => match Served::open(path) {
                // A confined server goes on with what it has: other changes of the reload must not wait.
                Err(error) if error.is_denied() => {
                    tracing::warn!(%error, "another folder has this path: restart the server to serve it");
                    Ok(Arc::clone(served))
                }
                opened => opened.map(Arc::new),
            },
            None => Served::open(path).map(Arc::new),
        };
        let served = paths.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let tree = match &served[..] {
            [] => return Err(LibraryError::Nothing),
            [only] if only.file.is_none() => Tree::Root(Arc::clone(only)),
            _ => Tree::Named(by_name(served)?),
        };
        Ok(Self::of(tree))
    }

    /// A library without files.
    pub(crate) fn empty() -> Self {
        Self::of(Tree::Named(BTreeMap::new()))
    }

    fn of(tree: Tree) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self { tree, number: NUMBERS.fetch_add(1, Relaxed) }
    }

    /// Number of this library, which no other one of the process has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The served folders and files.
    fn served(&self) -> impl Iterator<Item = &Arc<Served>> {
        let (root, named) = match &self.tree {
            Tree::Root(root) => (Some(root), None),
            Tree::Named(named) => (None, Some(named.values())),
        };
        root.into_iter().chain(named.into_iter().flatten())
    }

    /// Returns whether all paths lead to the folders that were opened, or cannot be examined now.
    pub(crate) fn is_in_place(&self) -> bool {
        self.served().all(|served| served.is_in_place())
    }

    /// The part of the library that this library and another one serve under the same paths in URLs.
    pub(crate) fn common(&self, other: &Self) -> Self {
        Self::of(match (&self.tree, &other.tree) {
            (Tree::Root(root), Tree::Root(also)) if Arc::ptr_eq(root, also) => Tree::Root(Arc::clone(root)),
            (Tree::Named(named), Tree::Named(others)) => {
                let is_common = |(name, served): &(&OsString, &Arc<Served>)| {
                    others.get(*name).is_some_and(|other| Arc::ptr_eq(other, served))
                };
                let common = named.iter().filter(is_common);
                Tree::Named(common.map(|(name, served)| (name.clone(), Arc::clone(served))).collect())
            }
            (Tree::Root(_) | Tree::Named(_), _) => Tree::Named(BTreeMap::new()),
        })
    }

    /// The served folder or file that a path leads into, as a library in which it has the same path; an empty
    /// library if there is none.
    pub(crate) fn around(&self, path: &AssetPath) -> Self {
        Self::of(match &self.tree {
            Tree::Root(root) => Tree::Root(Arc::clone(root)),
            Tree::Named(named) => {
                let (name, _) = split_first(path.as_bytes());
                let found = named.get_key_value(OsStr::from_bytes(name));
                Tree::Named(
                    found.into_iter().map(|(name, served)| (name.clone(), Arc::clone(served))).collect(),
                )
            }
        })
    }

    /// This library, or another one that serves the same, with its number: files that it keeps open stay
    /// open.
    pub(crate) fn or_same(self, other: &Arc<Self>) -> Arc<Self> {
        if self.is_like(other) { Arc::clone(other) } else { Arc::new(self) }
    }

    /// Returns whether another library serves the same under the same paths in URLs.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (&self.tree, &other.tree) {
            (Tree::Root(root), Tree::Root(other)) => Arc::ptr_eq(root, other),
            (Tree::Named(named), Tree::Named(others)) => {
                named.len() == others.len()
                    && named.iter().zip(others).all(|((name, served), (other_name, other))| {
                        name == other_name && Arc::ptr_eq(served, other)
                    })
            }
            (Tree::Root(_) | Tree::Named(_), _) => false,
        }
    }

    /// Paths as given, and paths in URLs, of what another library serves under another path in URLs.
    pub(crate) fn moved_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = (&'a Path, String, String)> {
        self.served().filter_map(|served| {
            let (from, to) = (before.url_path(served)?, self.url_path(served)?);
            (from != to).then_some((served.given.as_path(), from, to))
        })
    }

    /// Path in URLs of a served folder or file.
    fn url_path(&self, served: &Arc<Served>) -> Option<String> {
        match &self.tree {
            Tree::Root(root) => Arc::ptr_eq(root, served).then(|| "/".to_owned()),
            Tree::Named(named) => {
                let (name, served) = named.iter().find(|(_, other)| Arc::ptr_eq(other, served))?;
                let slash = if served.file.is_none() { "/" } else { "" };
                Some(format!("/{}{slash}", name.display()))
            }
        }
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
            Tree::Root(root) => return Ok(Location::Below(&root.folder, path.as_bytes())),
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
    Top(&'a BTreeMap<OsString, Arc<Served>>),
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

    /// Returns whether its path leads to the folder that was opened. A path that cannot be followed is taken for in
    /// place: its storage may come back.
    fn is_in_place(&self) -> bool {
        let Ok(real) = self.given.canonicalize() else { return true };
        let folder = match &self.file {
            Some(file) if real.file_name() != Some(file) => return false,
            Some(_) => real.parent().unwrap_or(Path::new("/")),
            None => &real,
        };
        self.folder.is_at(folder).unwrap_or(true)
    }

    /// Last component of the given path; if that is `.`, `..` or missing, of the resolved path.
    fn name(&self) -> Result<OsString, LibraryError> {
        let real = || self.given.canonicalize().ok()?.file_name().map(OsStr::to_owned);
        let name = self.given.file_name().map(OsStr::to_owned).or_else(real);
        name.ok_or_else(|| LibraryError::Nameless(self.given.clone()))
    }
}

fn by_name(served: Vec<Arc<Served>>) -> Result<BTreeMap<OsString, Arc<Served>>, LibraryError> {
    let mut named = BTreeMap::<_, Arc<Served>>::new();
    for second in served {
        let name = second.name()?;
        if let Some(first) = named.remove(&name) {
            return Err(LibraryError::Clash(first.given.clone(), second.given.clone(), name));
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
