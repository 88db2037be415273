//! Contents of folders.

use super::asset::{identity, modified_s};
use super::{FindError, Served, is_hidden};
use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Most entries in a listing; for a larger folder, the first names that the file system returns.
pub(crate) const LISTING_LIMIT: usize = 10_000;

/// The folders and files in a folder, folders first, each sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FolderListing {
    pub(crate) entries: Vec<Entry>,
    /// True if there are more than [`LISTING_LIMIT`].
    pub(crate) truncated: bool,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    /// Its name: bytes, as in the file system.
    pub(crate) name: Vec<u8>,
    /// Size in bytes; 0 for a folder.
    pub(crate) size: u64,
    /// When it was last modified, in seconds since 1970.
    pub(crate) modified_s: u64,
    /// True if it begins like a transport stream; none if unknown.
    pub(crate) is_stream: Option<bool>,
}

/// Kinds of listed entries. Everything else is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntryKind {
    Folder,
    File,
}

/// Reads a folder. `look` resolves a name that is a symbolic link.
pub(super) fn read(
    folder: &OwnedFd,
    look: impl Fn(&[u8]) -> Option<Stat>,
) -> Result<FolderListing, FindError> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder).map_err(FindError::Io)? {
        let entry = entry.map_err(FindError::Io)?;
        let name = entry.file_name().to_bytes();
        if is_hidden(name) {
            continue;
        }
        if entries.len() == LISTING_LIMIT {
            return Ok(FolderListing::of(entries, true));
        }
        // A file that was removed meanwhile is left out.
        let stat = statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok();
        let stat = stat.and_then(|stat| if is_link(&stat) { look(name) } else { Some(stat) });
        entries.extend(stat.and_then(|stat| Entry::of(name, &stat)));
    }
    Ok(FolderListing::of(entries, false))
}

/// Calls a function with each name in a folder, in no order, until it breaks.
pub(super) fn names(
    folder: &OwnedFd,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), FindError> {
    for entry in Dir::read_from(folder).map_err(FindError::Io)? {
        if each(entry.map_err(FindError::Io)?.file_name().to_bytes()).is_break() {
            break;
        }
    }
    Ok(())
}

/// Lists the root above several served folders and files.
pub(super) fn top(named: &BTreeMap<OsString, Arc<Served>>) -> FolderListing {
    let entries = named.iter().filter_map(|(name, served)| {
        let path = served.file.as_ref().map_or(&b"."[..], |file| file.as_bytes());
        Entry::of(name.as_bytes(), &served.folder.look(path)?)
    });
    FolderListing::of(entries.collect(), false)
}

impl FolderListing {
    fn of(mut entries: Vec<Entry>, truncated: bool) -> Self {
        entries.sort_unstable();
        Self { entries, truncated }
    }
}

impl Entry {
    fn of(name: &[u8], stat: &Stat) -> Option<Self> {
        let identity = identity(stat);
        let (kind, size) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => (EntryKind::Folder, 0),
            FileType::RegularFile => (EntryKind::File, identity.size),
            _ => return None,
        };
        Some(Self { kind, name: name.to_vec(), size, modified_s: modified_s(&identity), is_stream: None })
    }
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}
