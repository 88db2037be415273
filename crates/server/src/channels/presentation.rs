//! A channel as a presentation.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;

use wirepath_media::sdp::Description;
use wirepath_playback::{PlaybackOptions, TrainSource};

use super::LiveChannel;
use super::group::ChannelMedia;
use super::playback::ChannelPlayback;
use super::source::ChannelSource;
use crate::asset_player::{AssetPlayer, limits_error, socket_error, stream_sink};
use crate::describe::describe;
use crate::rtsp::player::{
    BoxFuture, Joined, MediaSink, OnEvent, OpenError, Presentation, SessionPlayback, trailer,
};
use crate::waiting_play::WaitingPlay;

/// Channel that was opened for a client.
pub(super) struct ChannelPresentation {
    pub(super) player: AssetPlayer,
    pub(super) channel: Arc<LiveChannel>,
    pub(super) client: IpAddr,
}

impl ChannelPresentation {
    /// Refuses a path that packets of the channel do not fit.
    fn check_path(&self, socket: &UdpSocket, trailer: u32) -> Result<(), OpenError> {
        let limits = self.player.store.limits_of(socket, trailer).map_err(limits_error)?;
        let recipe = self.channel.first.plan().recipe;
        if limits.recipe_like(recipe).packet_size() >= recipe.packet_size() {
            return Ok(());
        }
        let why = "packets of channels do not fit the path MTU; ask for RTP over TCP";
        Err(OpenError::NotPlayable(why.to_owned()))
    }
}

impl Presentation for ChannelPresentation {
    fn describe(&self) -> Description {
        Description { duration_us: None, is_live: true, ..describe(&self.channel.first, self.channel.name()) }
    }

    fn tracks(&self) -> u8 {
        self.channel.first.plan().streams.len() as u8 // 16 at most
    }

    fn set_up(
        &self,
        track: u8,
        sink: MediaSink,
        most_burst_us: Option<u64>,
        on_event: OnEvent,
    ) -> BoxFuture<'_, Result<Box<dyn SessionPlayback>, OpenError>> {
        Box::pin(async move {
            if let MediaSink::Udp(socket, key) = &sink {
                self.check_path(socket, trailer(key.as_ref()))?;
            }
            let AssetPlayer { playbacks, max_lag_us, bursts, plays, .. } = &self.player;
            let channel = &self.channel;
            let numbers = channel.first.plan().streams.to_vec();
            let source = Arc::new(ChannelSource::new(Arc::clone(channel), numbers));
            let options = PlaybackOptions {
                source: Arc::clone(&source) as Arc<dyn TrainSource>,
                streams: self.tracks(),
                sink: stream_sink(&channel.first, track, sink, *max_lag_us),
                most_burst_us: most_burst_us.unwrap_or(u64::MAX).min(bursts.most_us(channel.name())),
                on_event,
            };
            let playback = Arc::new(playbacks.open(options).map_err(socket_error)?);
            Ok(Box::new(ChannelPlayback {
                channel: Arc::clone(channel),
                source,
                playback,
                playbacks: Arc::clone(playbacks),
                max_lag_us: *max_lag_us,
                plays: Arc::clone(plays),
                waiting: WaitingPlay::default(),
            }) as Box<dyn SessionPlayback>)
        })
    }

    fn join(&self, on_event: OnEvent) -> BoxFuture<'_, Result<Joined, OpenError>> {
        Box::pin(async move {
            let groups = self.player.groups()?;
            self.check_path(&groups.first().connect(0).map_err(socket_error)?, 0)?;
            groups.join(Box::new(ChannelMedia(Arc::clone(&self.channel))), self.client, on_event)
        })
    }
}
