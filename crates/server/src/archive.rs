//! Archives: folders of recordings, each of which plays as one timeline.
//!
//! Times of an archive are in microseconds since the beginning of its first recording, on the wall clock: gaps
//! between recordings count, whether they are skipped or held.

mod chain;
mod first_search;
mod folder;
mod folder_tree;
mod listing;
mod name_pattern;
mod opener;
mod playback;
mod presentation;
mod recordings;
mod source;

use std::net::IpAddr;
use std::sync::Arc;

use crate::asset_player::{AssetPlayer, blocking};
use crate::images::Store;
use crate::library::Library;
use crate::rtsp::player::{OpenError, Presentation};

pub(crate) use self::folder::ArchiveFolder;
pub(crate) use self::listing::respond as respond_with_recordings;
pub use self::name_pattern::{NamePattern, PatternError, TimeZone};
use self::presentation::ArchivePresentation;

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
#[derive(Default)]
pub(crate) struct Archives {
    folders: Vec<Arc<ArchiveFolder>>,
    gaps: Gaps,
}

impl Archives {
    /// Archives of a library. Those that are the same among others are taken over, with all that is known
    /// about their recordings.
    pub(crate) fn open(
        options: &[ArchiveOptions],
        gaps: Gaps,
        library: &Library,
        others: &Archives,
        store: &Arc<Store>,
    ) -> Archives {
        let folder = |options: &ArchiveOptions| {
            if let Some(same) = others.folders.iter().find(|folder| folder.is_like(options, library)) {
                return Some(Arc::clone(same));
            }
            ArchiveFolder::new(options.clone(), library, Arc::clone(store))
        };
        Archives { folders: options.iter().filter_map(folder).collect(), gaps }
    }

    /// Reads the folders of archives that others do not have, in the background. Warns of those that cannot be
    /// read. Must be called on a tokio runtime.
    pub(crate) fn read_new(&self, others: &Archives) {
        for folder in &self.folders {
            if others.folders.iter().any(|other| Arc::ptr_eq(folder, other)) {
                continue;
            }
            let folder = Arc::clone(folder);
            tokio::task::spawn_blocking(move || {
                if let Err(error) = folder.recordings() {
                    let path = folder.path();
                    tracing::warn!(path, %error, "--archive: the folder cannot be read: check its path in URLs");
                }
            });
        }
    }

    /// The archives that others have, too.
    pub(crate) fn common(&self, others: &Archives) -> Archives {
        let is_common =
            |folder: &&Arc<ArchiveFolder>| others.folders.iter().any(|other| Arc::ptr_eq(folder, other));
        Archives { folders: self.folders.iter().filter(is_common).cloned().collect(), gaps: self.gaps }
    }

    /// Playing of gaps between recordings.
    pub(crate) fn gaps(&self) -> Gaps {
        self.gaps
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

/// Opens an archive for a client.
pub(crate) async fn open(
    player: AssetPlayer,
    folder: Arc<ArchiveFolder>,
    gaps: Gaps,
    client: IpAddr,
) -> Result<Arc<dyn Presentation>, OpenError> {
    blocking(move || {
        let archive = ArchivePresentation::open(player, folder, client, gaps)?;
        Ok(Arc::new(archive) as Arc<dyn Presentation>)
    })
    .await
}
