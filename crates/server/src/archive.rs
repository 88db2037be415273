//! Archives: folders of recordings, each of which plays as one timeline.
//!
//! Times of an archive are in microseconds since the beginning of its first recording, on the wall clock: gaps
//! between recordings count, whether they are skipped or held.

mod chain;
mod first_search;
mod folder;
mod folder_tree;
mod formats;
mod listing;
mod name_pattern;
mod opener;
mod playback;
mod player;
mod presentation;
mod recordings;
mod source;

use std::sync::Arc;

pub(crate) use self::folder::ArchiveFolder;
pub(crate) use self::listing::respond as respond_with_recordings;
pub use self::name_pattern::{NamePattern, PatternError, TimeZone};
pub(crate) use self::player::ArchivePlayer;

/// Folder that plays as one timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// Path of the folder in URLs, not encoded, without slashes at its ends.
    pub path: String,
    /// Times in the names of its recordings.
    pub pattern: NamePattern,
}

/// Playing of gaps between recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gaps {
    /// The next recording follows at once, and timestamps continue without the gap.
    #[default]
    Skip,
    /// Nothing is sent for as long as the gap lasts, and timestamps include it.
    Hold,
}

/// Archives of a server.
pub(crate) struct Archives {
    folders: Vec<Arc<ArchiveFolder>>,
}

impl Archives {
    pub(crate) fn new(folders: Vec<Arc<ArchiveFolder>>) -> Archives {
        Archives { folders }
    }

    /// The archive of this path in URLs, decoded.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&Arc<ArchiveFolder>> {
        self.folders.iter().find(|folder| folder.path().as_bytes() == path)
    }

    /// The archive whose path differs from this one only in letter case, if exactly one does.
    pub(crate) fn find_in_other_case(&self, path: &[u8]) -> Option<&Arc<ArchiveFolder>> {
        let mut folders =
            self.folders.iter().filter(|folder| folder.path().as_bytes().eq_ignore_ascii_case(path));
        folders.next().filter(|_| folders.next().is_none())
    }

    /// The archives.
    pub(crate) fn folders(&self) -> &[Arc<ArchiveFolder>] {
        &self.folders
    }
}
