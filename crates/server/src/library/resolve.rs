//! Paths below a served folder, resolved by the kernel.

use super::asset::Version;
use super::{Asset, FindError, FolderListing, Found, is_hidden, listing};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, fstatfs, openat2, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Most attempts at a resolution that conflicts with renames elsewhere in the tree (openat2(2), EAGAIN).
const RENAME_RETRIES: usize = 16;

/// No symbolic link leads out of the folder, nor into `/proc`'s links to open files.
const CONFINED: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// For reading; without waiting for the other end of a pipe, and without making a terminal the controlling
/// one.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// To look at only.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A served folder, held open so that renaming it has no effect.
#[derive(Debug)]
pub(super) struct ServedFolder {
    fd: OwnedFd,
    /// Files whose names are in the kernel's cache open without waiting for storage or a network.
    is_local: bool,
}

/// Numbers of file systems on local storage (statfs(2)): ext2 to ext4, XFS, Btrfs, F2FS, tmpfs, bcachefs,
/// ZFS, and overlayfs, whose layers are nearly always on one of these.
const LOCAL_FILE_SYSTEMS: [u64; 8] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994, 0xca45_1a4e, 0x2fc1_2fc1, 0x794c_7630];

impl ServedFolder {
    /// Opens a folder and tries `openat2` on it, or on a file in it, once.
    pub(super) fn open(path: &Path, probe: Option<&OsStr>) -> Result<Self, Errno> {
        let fd = rustix::fs::open(path, LOOK | OFlags::DIRECTORY, Mode::empty())?;
        let is_local = fstatfs(&fd).is_ok_and(|stat| LOCAL_FILE_SYSTEMS.contains(&(stat.f_type as u64)));
        let folder = Self { fd, is_local };
        folder.resolve(probe.map_or(b".", OsStr::as_encoded_bytes), READ)?;
        Ok(folder)
    }

    /// Returns whether a path still leads to this folder.
    pub(super) fn is_at(&self, path: &Path) -> io::Result<bool> {
        let (opened, found) = (fstat(&self.fd)?, path.metadata()?);
        Ok((opened.st_dev, opened.st_ino) == (found.dev(), found.ino()))
    }

    /// Returns whether it is on storage of this machine.
    #[cfg(test)]
    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    pub(super) fn find(&self, path: &[u8]) -> Result<Found, FindError> {
        let fd = self.open_shown(path, READ)?;
        let stat = fstat(&fd).map_err(find_error)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Found::File(Asset { file: fd.into(), version: Version::new(&stat) })),
            FileType::Directory => Ok(Found::Folder),
            _ => Err(FindError::NotFound),
        }
    }

    /// A file, if its name is in the kernel's cache (`RESOLVE_CACHED`, Linux 5.12): opened without waiting.
    pub(super) fn find_cached(&self, path: &[u8]) -> Option<Asset> {
        if !self.is_local || path.is_empty() || path.split(|&byte| byte == b'/').any(is_hidden) {
            return None;
        }
        let flags = CONFINED | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        let fd = openat2(&self.fd, path, READ, Mode::empty(), flags).ok()?;
        let stat = fstat(&fd).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| Asset { file: fd.into(), version: Version::new(&stat) })
    }

    /// Version of the file that a path names, links followed, also out of the folder.
    pub(super) fn version(&self, path: &[u8]) -> Option<Version> {
        let path = if path.is_empty() { b"." } else { path };
        statat(&self.fd, path, AtFlags::empty()).ok().map(|stat| Version::new(&stat))
    }

    pub(super) fn list(&self, path: &[u8]) -> Result<FolderListing, FindError> {
        let fd = self.open_shown(path, READ | OFlags::DIRECTORY)?;
        let listing = listing::read(&fd, |name| self.look(&join(path, name)))?;
        // Deleted since it was opened. File systems of FUSE may have no links, but entries.
        let is_deleted = listing.entries.is_empty() && fstat(&fd).map_err(find_error)?.st_nlink == 0;
        if is_deleted { Err(FindError::NotFound) } else { Ok(listing) }
    }

    /// Calls a function with each name in a folder until it breaks.
    pub(super) fn names(
        &self,
        path: &[u8],
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), FindError> {
        listing::names(&self.open_shown(path, READ | OFlags::DIRECTORY)?, each)
    }

    /// Version of a folder, without reading it. An error other than "not found" says nothing about the folder.
    pub(super) fn folder_version(&self, path: &[u8]) -> Result<Version, FindError> {
        let fd = self.open_shown(path, LOOK | OFlags::DIRECTORY)?;
        Ok(Version::new(&fstat(fd).map_err(find_error)?))
    }

    /// Metadata of a path, links followed, without opening it. None if it cannot be reached.
    pub(super) fn look(&self, path: &[u8]) -> Option<Stat> {
        fstat(self.resolve(path, LOOK).ok()?).ok()
    }

    fn open_shown(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, FindError> {
        if path.split(|&byte| byte == b'/').any(is_hidden) {
            return Err(FindError::NotFound);
        }
        let path = if path.is_empty() { b"." } else { path };
        self.resolve(path, flags).map_err(find_error)
    }

    fn resolve(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        for _ in 0..RENAME_RETRIES {
            match openat2(&self.fd, path, flags, Mode::empty(), CONFINED) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return result,
            }
        }
        Err(Errno::AGAIN)
    }
}

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

fn find_error(errno: Errno) -> FindError {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => FindError::NotFound,
        // A link that leaves the folder, a loop or too many links, a socket, a device without a driver.
        Errno::XDEV | Errno::LOOP | Errno::NXIO | Errno::NODEV => FindError::NotFound,
        Errno::ACCESS | Errno::PERM => FindError::Forbidden,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => FindError::Exhausted,
        errno => FindError::Io(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_statuses() {
        for (errno, code) in [
            (Errno::NOENT, 404),
            (Errno::NOTDIR, 404),
            (Errno::XDEV, 404),
            (Errno::LOOP, 404),
            (Errno::NXIO, 404),
            (Errno::ACCESS, 403),
            (Errno::MFILE, 503),
            (Errno::NOMEM, 503),
            (Errno::IO, 500),
            (Errno::STALE, 500),
            (Errno::AGAIN, 500),
        ] {
            assert_eq!(find_error(errno).http_status().as_u16(), code);
        }
    }
}
