//! The player of a server: channels by their names, archives by their paths, everything else from the
//! library.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use wirepath_playback::ConnectionWriter;

use super::{Catalog, CurrentCatalog};
use crate::admission::Overload;
use crate::archive;
use crate::asset_player::AssetPlayer;
use crate::played_as::PlayedAs;
use crate::rtsp::player::{BoxFuture, OpenError, Player, Presentation};

/// Player of the current catalog.
#[derive(Clone)]
pub(crate) struct CatalogPlayer {
    assets: AssetPlayer,
    current: Arc<CurrentCatalog>,
    /// Catalog of a snapshot.
    catalog: Option<Arc<Catalog>>,
}

impl CatalogPlayer {
    pub(crate) fn new(assets: AssetPlayer, current: Arc<CurrentCatalog>) -> CatalogPlayer {
        CatalogPlayer { assets, current, catalog: None }
    }

    async fn open_in(
        &self,
        catalog: &Catalog,
        path: &[u8],
        played_as: PlayedAs,
        client: IpAddr,
    ) -> Result<Arc<dyn Presentation>, OpenError> {
        let Catalog { library, archives, channels, .. } = catalog;
        if let Some(channel) = channels.find(path) {
            return channel.presentation(self.assets.clone(), client);
        }
        let folder = match archives.find(path) {
            Some(folder) => folder,
            None => match self.assets.open(library, path, played_as, client).await {
                Err(error @ (OpenError::NotFound | OpenError::Folder)) => {
                    archives.find_in_other_case(path).ok_or(error)?
                }
                result => return result,
            },
        };
        let folder = match played_as {
            PlayedAs::Stored => Arc::clone(folder),
            PlayedAs::Tracks => folder.by_tracks().ok_or(OpenError::NotFound)?,
        };
        archive::open(self.assets.clone(), folder, archives.gaps(), client).await
    }
}

impl Player for CatalogPlayer {
    fn open<'a>(
        &'a self,
        path: &'a [u8],
        played_as: PlayedAs,
        client: IpAddr,
    ) -> BoxFuture<'a, Result<Arc<dyn Presentation>, OpenError>> {
        let catalog = self.catalog.clone().unwrap_or_else(|| self.current.get());
        Box::pin(async move { self.open_in(&catalog, path, played_as, client).await })
    }

    fn snapshot(&self) -> Option<Arc<dyn Player>> {
        Some(Arc::new(CatalogPlayer { catalog: Some(self.current.get()), ..self.clone() }))
    }

    fn is_current(&self) -> bool {
        self.catalog.as_ref().is_none_or(|catalog| self.current.is_current(catalog))
    }

    fn admit(&self, bits_per_second: Option<u64>) -> Result<(), Overload> {
        self.assets.admission.admit(bits_per_second)
    }

    fn admit_faster(&self, more: f64) -> Result<(), Overload> {
        self.assets.admission.admit_faster(more)
    }

    fn has_groups(&self) -> bool {
        self.assets.groups.is_some()
    }

    fn open_writer(&self, socket: OwnedFd) -> io::Result<ConnectionWriter> {
        self.assets.playbacks.open_writer(socket)
    }
}
