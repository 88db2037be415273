//! The player of a server: channels by their names, then archives and assets.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use wirepath_playback::ConnectionWriter;

use super::Channels;
use super::presentation::ChannelPresentation;
use crate::admission::Overload;
use crate::archive::ArchivePlayer;
use crate::played_as::PlayedAs;
use crate::rtsp::player::{BoxFuture, OpenError, Player, Presentation};

/// Player of channels, archives and assets.
pub(crate) struct ChannelPlayer {
    pub(crate) archives: ArchivePlayer,
    pub(crate) channels: Arc<Channels>,
}

impl Player for ChannelPlayer {
    fn open<'a>(
        &'a self,
        path: &'a [u8],
        played_as: PlayedAs,
        client: IpAddr,
    ) -> BoxFuture<'a, Result<Arc<dyn Presentation>, OpenError>> {
        match self.channels.find(path) {
            Some(slot) => {
                let player = self.archives.assets.clone();
                let channel = slot.channel().map(|channel| {
                    Arc::new(ChannelPresentation { player, channel, client }) as Arc<dyn Presentation>
                });
                let why = "no asset of this channel can be played at present; try again later";
                Box::pin(async move { channel.ok_or_else(|| OpenError::NotYet(why.to_owned())) })
            }
            None => self.archives.open(path, played_as, client),
        }
    }

    fn admit(&self, bits_per_second: Option<u64>) -> Result<(), Overload> {
        self.archives.admit(bits_per_second)
    }

    fn admit_faster(&self, more: f64) -> Result<(), Overload> {
        self.archives.admit_faster(more)
    }

    fn has_groups(&self) -> bool {
        self.archives.has_groups()
    }

    fn open_writer(&self, socket: OwnedFd) -> io::Result<ConnectionWriter> {
        self.archives.open_writer(socket)
    }
}
