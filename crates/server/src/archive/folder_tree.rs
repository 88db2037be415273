//! Names of an archive's files, folder by folder. A folder is read again when it has changed.

mod folder;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use wirepath_http::AssetPath;

use self::folder::{Folder, Walk};
use super::name_pattern::NamePattern;
use super::recordings::Recordings;
use crate::library::{FindError, Library};

/// Duration of a check after which the next one may begin at once. After a longer check there is a pause of
/// the time beyond this one, so that slow storage is idle about as long as it is read.
const SHORT_CHECK: Duration = Duration::from_millis(100);
/// Longest pause between checks.
const MOST_PAUSE: Duration = Duration::from_secs(10);

/// Limits of an archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeLimits {
    /// Most names in its folders.
    pub(super) names: usize,
    /// Most folders, the archive's own included.
    pub(super) folders: usize,
}

/// Check of the folders of an archive.
pub(super) struct TreeCheck<'a> {
    pub(super) library: &'a Library,
    pub(super) pattern: &'a NamePattern,
    /// The time, in seconds since 1970.
    pub(super) now_s: u64,
    /// Called for a folder that cannot be read.
    pub(super) note: &'a dyn Fn(&AssetPath, FindError),
}

/// The folders of an archive.
pub(super) struct FolderTree {
    archive: AssetPath,
    root: Folder,
    limits: TreeLimits,
    /// True if recordings were added or removed since they were last taken.
    is_changed: bool,
    /// True if folders or names beyond the limits are left out.
    is_cut: bool,
    folders: usize,
    reads: u64,
    /// Earliest time of the next check.
    next_check: Option<Instant>,
}

impl FolderTree {
    /// The folders of an archive at a path in the library, none of which is read; none if the path is not
    /// valid.
    pub(super) fn new(archive: &AssetPath, pattern: &NamePattern, limits: TreeLimits) -> Option<FolderTree> {
        Some(FolderTree {
            archive: archive.clone(),
            root: Folder::root(archive, pattern)?,
            limits,
            is_changed: true,
            is_cut: false,
            folders: 0,
            reads: 0,
            next_check: None,
        })
    }

    /// Reads the folders that have changed. Waits for storage.
    pub(super) fn check(&mut self, check: &TreeCheck<'_>) -> Result<(), FindError> {
        let began = Instant::now();
        if self.next_check.is_some_and(|next| began < next) {
            return Ok(());
        }
        let mut walk = Walk::new(check, &self.archive, self.limits);
        let result = self.root.check(&mut walk, 0);
        let found = if self.root.exists() { Ok(()) } else { Err(FindError::NotFound) };
        self.is_changed |= walk.is_changed;
        self.reads += walk.reads;
        self.folders = self.limits.folders - walk.left.folders;
        if walk.is_cut && !self.is_cut {
            let TreeLimits { names, folders } = self.limits;
            let archive = String::from_utf8_lossy(self.archive.as_bytes());
            tracing::warn!(
                ?archive,
                "an archive has more than {names} names or {folders} folders: others are left out; remove old \
                 recordings, or serve parts of it as archives of their own"
            );
        }
        self.is_cut = walk.is_cut;
        let result = result.and(found);
        let ended = Instant::now();
        self.next_check = result.is_ok().then(|| ended + pause(ended - began));
        result
    }

    /// The recordings of all folders, if they changed since the last call.
    pub(super) fn changed_recordings(&mut self) -> Option<Recordings> {
        std::mem::take(&mut self.is_changed).then(|| {
            let mut recordings = Vec::new();
            self.root.collect(&mut recordings);
            Recordings::of(recordings)
        })
    }

    /// Number of folders, the archive's own included.
    pub(super) fn folders(&self) -> usize {
        self.folders
    }

    /// Number of times that one of the folders was read.
    pub(super) fn reads(&self) -> u64 {
        self.reads
    }
}

/// Pause after a check of this duration.
fn pause(check: Duration) -> Duration {
    check.saturating_sub(SHORT_CHECK).min(MOST_PAUSE)
}
