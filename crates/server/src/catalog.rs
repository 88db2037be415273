//! The catalog: files, archives and channels that a server serves. A reload replaces it as a whole.
//!
//! Requests take the current catalog once. Sessions keep what they play, not the catalog, so that they
//! continue when it is replaced.

mod player;

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;
use wirepath_engine::BlockingPool;
use wirepath_http::AssetPath;

use crate::archive::{ArchiveOptions, Archives, Gaps};
use crate::channels::{ChannelError, Channels, LiveChannelOptions};
use crate::images::Store;
use crate::library::{Library, LibraryError};

pub(crate) use self::player::CatalogPlayer;

/// Options of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogOptions {
    /// Folders and files to serve.
    pub paths: Vec<PathBuf>,
    /// Folders that each play as one timeline.
    pub archives: Vec<ArchiveOptions>,
    /// Playing of gaps between recordings.
    pub gaps: Gaps,
    /// Playlists that play as one endless stream each.
    pub channels: Vec<LiveChannelOptions>,
}

/// A catalog cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A path cannot be served.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A channel cannot be served.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

impl CatalogError {
    /// Returns whether the server lacks the permission to open a file or folder (EACCES).
    pub fn is_denied(&self) -> bool {
        match self {
            CatalogError::Library(error) => error.is_denied(),
            CatalogError::Channel(error) => matches!(error, ChannelError::Denied(..)),
        }
    }
}

/// Files, archives and channels.
pub(crate) struct Catalog {
    options: CatalogOptions,
    pub(crate) library: Arc<Library>,
    pub(crate) archives: Archives,
    pub(crate) channels: Channels,
}

impl Catalog {
    /// A catalog of files alone.
    pub(crate) fn of(library: Arc<Library>) -> Catalog {
        let options = CatalogOptions::default();
        Catalog { options, library, archives: Archives::default(), channels: Channels::default() }
    }

    /// Opens a catalog, whose files are open already. Must be called on a tokio runtime; waits for storage.
    pub(crate) fn open(
        options: CatalogOptions,
        library: Arc<Library>,
        store: &Arc<Store>,
        pool: &BlockingPool,
    ) -> Result<Catalog, CatalogError> {
        Catalog::of(library).open_like(options, store, pool)
    }

    /// Returns whether it was opened with these options.
    pub(crate) fn has(&self, options: &CatalogOptions) -> bool {
        self.options == *options
    }

    /// Opens the catalog that succeeds this one. Entries that are in both are taken over as they are. Refuses
    /// files that the server may not open, such as those out of reach of a confined server. Must be called on
    /// a tokio runtime; waits for storage.
    pub(crate) fn open_next(
        &self,
        options: CatalogOptions,
        store: &Arc<Store>,
        pool: &BlockingPool,
    ) -> Result<Catalog, CatalogError> {
        Channels::ensure_permitted(&options.channels, &self.channels)?;
        self.open_like(options, store, pool)
    }

    fn open_like(
        &self,
        options: CatalogOptions,
        store: &Arc<Store>,
        pool: &BlockingPool,
    ) -> Result<Catalog, CatalogError> {
        let library = Arc::new(Library::open_like(&options.paths, &self.library)?);
        let archives = Archives::open(&options.archives, options.gaps, &library, &self.archives, store);
        let is_taken = |name: &[u8]| {
            AssetPath::from_decoded(name).is_ok_and(|path| library.has(&path))
                || archives.find_in_other_case(name).or(archives.find(name)).is_some()
        };
        let channels = Channels::open(&options.channels, &self.channels, is_taken, store, pool)?;
        Ok(Catalog { options, library, archives, channels })
    }

    /// The entries of this catalog that its successor has, too, under the same paths in URLs.
    fn common(&self, next: &Catalog) -> Catalog {
        Catalog {
            options: self.options.clone(),
            library: Arc::new(self.library.common(&next.library)),
            archives: self.archives.common(&next.archives),
            channels: self.channels.common(&next.channels),
        }
    }

    /// Logs the entries that its successor adds, removes or moves.
    fn log_changes(&self, next: &Catalog) {
        let (added, removed) = (next.options.without(&self.options), self.options.without(&next.options));
        for (entries, what) in [(removed, "not served any more"), (added, "served from now on")] {
            if !entries.is_empty() {
                tracing::info!("{what}: {}", entries.join(", "));
            }
        }
        for (path, from, to) in next.library.moved_since(&self.library) {
            let path = path.display();
            tracing::warn!(%path, from, to, "URLs of a served path change with the number of paths");
        }
    }
}

impl CatalogOptions {
    /// Entries that other options do not have, for the log.
    fn without(&self, others: &CatalogOptions) -> Vec<String> {
        let paths = self.paths.iter().filter(|path| !others.paths.contains(path));
        let archives = self.archives.iter().filter(|archive| !others.archives.contains(archive));
        let channels = self.channels.iter().filter(|channel| !others.channels.contains(channel));
        let paths = paths.map(|path| path.display().to_string());
        let archives = archives.map(|archive| format!("archive {}={}", archive.path, archive.pattern));
        let channels =
            channels.map(|channel| format!("channel {}={}", channel.name, channel.playlist.display()));
        paths.chain(archives).chain(channels).collect()
    }
}

/// The current catalog, which a reload replaces.
pub(crate) struct CurrentCatalog(RwLock<Arc<Catalog>>);

impl CurrentCatalog {
    pub(crate) fn new(catalog: Catalog) -> Arc<CurrentCatalog> {
        Arc::new(CurrentCatalog(RwLock::new(Arc::new(catalog))))
    }

    pub(crate) fn get(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.read())
    }

    /// Takes entries out that the next catalog does not have. Their rules may be dropped then.
    pub(crate) fn reduce_to(&self, next: &Catalog) {
        let current = self.get();
        *self.0.write() = Arc::new(current.common(next));
        current.log_changes(next);
        next.channels.succeed(&current.channels);
    }

    /// Replaces the catalog for later requests.
    pub(crate) fn replace(&self, next: Catalog) {
        *self.0.write() = Arc::new(next);
    }
}
