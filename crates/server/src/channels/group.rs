//! A channel as the media of a multicast group.

use std::sync::Arc;

use wirepath_engine::BlockingPool;
use wirepath_media::image::StreamPlan;
use wirepath_playback::{Cursor, PlayError};

use super::LiveChannel;
use super::source::ChannelSource;
use crate::images::Image;
use crate::multicast::{GroupMedia, GroupSource};
use crate::rtsp::player::{BoxFuture, PlaybackFailure};

/// A channel, from its current position.
pub(super) struct ChannelMedia(pub(super) Arc<LiveChannel>);

impl GroupMedia for ChannelMedia {
    fn image(&self) -> &Arc<Image> {
        &self.0.first
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn is_live(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<PlaybackFailure> {
        self.0.failure()
    }

    fn source(&self, streams: Vec<StreamPlan>, _pool: &BlockingPool) -> Arc<dyn GroupSource> {
        Arc::new(ChannelSource::new(Arc::clone(&self.0), streams))
    }
}

impl GroupSource for ChannelSource {
    fn wait_for_start(self: Arc<Self>) -> Option<BoxFuture<'static, Result<Cursor, PlayError>>> {
        Some(Box::pin(async move {
            let place = Arc::clone(self.channel()).wait_for_place().await?;
            Ok(self.begin(place))
        }))
    }
}
