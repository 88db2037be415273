//! The catalog: files, archives and channels that a server serves. A reload replaces it as a whole.
//!
//! Requests take the current catalog once: before rules admit them, and again if it is replaced before they
//! are admitted. So no request that old rules admit finds entries that came with new rules. Sessions keep
//! what they play, not the catalog, so that they continue when it is replaced.

mod player;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;
use wirepath_engine::BlockingPool;
use wirepath_http::AssetPath;

use crate::archive::{ArchiveFolder, ArchiveOptions, Archives, Gaps, TimeZone};
use crate::channels::{ChannelError, Channels, LiveChannelOptions};
use crate::images::Store;
use crate::library::{FindError, Found, Library, LibraryError};
use crate::plays::Plays;

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

    /// Returns whether it was opened with these options, and their paths lead to the same folders. Waits for
    /// storage.
    pub(crate) fn has(&self, options: &CatalogOptions) -> bool {
        self.options == *options && self.library.is_in_place()
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
        let library = Library::open_like(&options.paths, &self.library)?.or_same(&self.library);
        let archives = Archives::open(&options.archives, options.gaps, &library, &self.archives, store);
        let is_taken = |name: &[u8]| {
            // Channels are found in any letter case.
            let is_like = |folder: &Arc<ArchiveFolder>| folder.path().as_bytes().eq_ignore_ascii_case(name);
            AssetPath::from_decoded(name).is_ok_and(|path| library.has(&path))
                || archives.folders().iter().any(is_like)
        };
        let channels = Channels::open(&options.channels, &self.channels, is_taken, store, pool)?;
        archives.read_new(&self.archives);
        Ok(Catalog { options, library, archives, channels })
    }

    /// Returns whether an asset, an archive or a channel has this name, or may have it: bytes of names that are not
    /// UTF-8 are not known. Waits for storage.
    pub(crate) fn serves(&self, name: &str) -> bool {
        let path = name.as_bytes();
        let is_there =
            |path| !matches!(self.library.find(&path), Err(FindError::NotFound) | Ok(Found::Folder));
        name.contains(char::REPLACEMENT_CHARACTER)
            || self.channels.find(path).is_some()
            || self.archives.find(path).is_some()
            || AssetPath::from_decoded(path).is_ok_and(is_there)
    }

    /// The entries of this catalog that its successor has, too, under the same paths in URLs.
    fn common(&self, next: &Catalog) -> Catalog {
        Catalog {
            options: self.options.clone(),
            library: self.library.common(&next.library).or_same(&self.library),
            archives: self.archives.common(&next.archives),
            channels: self.channels.common(&next.channels),
        }
    }

    /// Logs the entries that its successor adds, changes, removes or moves.
    pub(crate) fn log_changes(&self, next: &Catalog) {
        let (before, now) = (self.options.entries(), next.options.entries());
        let removed = before.iter().filter(|entry| !now.iter().any(|other| other.is_named_like(entry)));
        let added = now.iter().filter(|entry| !before.iter().any(|other| other.is_named_like(entry)));
        let changed = now
            .iter()
            .filter(|entry| before.iter().any(|other| other.is_named_like(entry)) && !before.contains(entry));
        let removed: Vec<String> = removed.map(ToString::to_string).collect();
        let changed: Vec<String> = changed.map(ToString::to_string).collect();
        let added: Vec<String> = added.map(ToString::to_string).collect();
        for (entries, what) in
            [(removed, "not served any more"), (changed, "changed"), (added, "served from now on")]
        {
            if !entries.is_empty() {
                tracing::info!("{what}: {}", entries.join(", "));
            }
        }
        for (path, from, to) in next.library.moved_since(&self.library) {
            let path = path.display();
            tracing::warn!(
                %path, from, to,
                "URLs of a served path change with the number of paths: rules, cache control, disposition and bursts \
                 of folders, archives and signed URLs need the new path"
            );
        }
    }
}

/// Path, archive or channel, for the log.
#[derive(PartialEq, Eq)]
struct Entry {
    /// Kind, with a space before a name; empty for paths.
    kind: &'static str,
    name: String,
    /// Pattern and zone, playlist, or how gaps play; none for paths.
    value: Option<String>,
}

impl Entry {
    fn is_named_like(&self, other: &Entry) -> bool {
        (self.kind, &self.name) == (other.kind, &other.name)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind, self.name)?;
        self.value.iter().try_for_each(|value| write!(f, "={value}"))
    }
}

impl CatalogOptions {
    /// Entries, for the log.
    fn entries(&self) -> Vec<Entry> {
        let paths =
            self.paths.iter().map(|path| Entry { kind: "", name: path.display().to_string(), value: None });
        let archives = self.archives.iter().map(|archive| Entry {
            kind: "archive ",
            name: archive.path.clone(),
            value: Some(match archive.pattern.zone() {
                TimeZone::Utc => archive.pattern.to_string(),
                TimeZone::Local => format!("{} in local time", archive.pattern),
            }),
        });
        let gaps = match self.gaps {
            Gaps::Skip => "skip",
            Gaps::Hold => "hold",
        };
        let gaps = Entry { kind: "archive-gaps", name: String::new(), value: Some(gaps.to_owned()) };
        let channels = self.channels.iter().map(|channel| Entry {
            kind: "channel ",
            name: channel.name.clone(),
            value: Some(channel.playlist.display().to_string()),
        });
        paths.chain(archives).chain([gaps]).chain(channels).collect()
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

    /// Returns whether a catalog was not replaced yet.
    pub(crate) fn is_current(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.0.read(), catalog)
    }

    /// Looks up in another thread which of the assets that were played are served: slow storage must hold up neither
    /// the start nor a reload.
    pub(crate) fn look_up_plays(self: &Arc<Self>, plays: &Arc<Plays>) {
        let (catalog, plays) = (Arc::clone(self), Arc::clone(plays));
        tokio::task::spawn_blocking(move || plays.note_served(|name| catalog.get().serves(name)));
    }

    /// Takes entries out that the next catalog does not have. Their rules may be dropped then.
    pub(crate) fn reduce_to(&self, next: &Catalog) {
        let current = self.get();
        *self.0.write() = Arc::new(current.common(next));
        next.channels.succeed(&current.channels);
    }

    /// Replaces the catalog for later requests.
    pub(crate) fn replace(&self, next: Catalog) {
        *self.0.write() = Arc::new(next);
    }
}
