//! The player of a server: archives by their paths, everything else from the library.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use wirepath_playback::ConnectionWriter;

use super::folder::ArchiveFolder;
use super::presentation::ArchivePresentation;
use super::{Archives, Gaps};
use crate::admission::Overload;
use crate::asset_player::{AssetPlayer, blocking};
use crate::played_as::PlayedAs;
use crate::rtsp::player::{BoxFuture, OpenError, Player, Presentation};

/// Player of archives and assets.
pub(crate) struct ArchivePlayer {
    pub(crate) assets: AssetPlayer,
    pub(crate) archives: Arc<Archives>,
    pub(crate) gaps: Gaps,
}

impl ArchivePlayer {
    async fn open_archive(
        &self,
        folder: Arc<ArchiveFolder>,
        client: IpAddr,
    ) -> Result<Arc<dyn Presentation>, OpenError> {
        let (player, gaps) = (self.assets.clone(), self.gaps);
        blocking(move || {
            let archive = ArchivePresentation::open(player, folder, client, gaps)?;
            Ok(Arc::new(archive) as Arc<dyn Presentation>)
        })
        .await
    }
}

impl Player for ArchivePlayer {
    fn open<'a>(
        &'a self,
        path: &'a [u8],
        played_as: PlayedAs,
        client: IpAddr,
    ) -> BoxFuture<'a, Result<Arc<dyn Presentation>, OpenError>> {
        Box::pin(async move {
            if let Some(folder) = self.archives.find(path) {
                return self.open_archive(Arc::clone(folder), client).await;
            }
            match self.assets.open(path, played_as, client).await {
                Err(OpenError::NotFound) => match self.archives.find_in_other_case(path) {
                    Some(folder) => self.open_archive(Arc::clone(folder), client).await,
                    None => Err(OpenError::NotFound),
                },
                result => result,
            }
        })
    }

    fn admit(&self, bits_per_second: Option<u64>) -> Result<(), Overload> {
        self.assets.admit(bits_per_second)
    }

    fn admit_faster(&self, more: f64) -> Result<(), Overload> {
        self.assets.admit_faster(more)
    }

    fn has_groups(&self) -> bool {
        self.assets.has_groups()
    }

    fn open_writer(&self, socket: OwnedFd) -> io::Result<ConnectionWriter> {
        self.assets.open_writer(socket)
    }
}
