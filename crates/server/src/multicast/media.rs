//! Media of a group: the traits of media and of their source, and an asset as media.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use wirepath_engine::BlockingPool;
use wirepath_media::image::StreamPlan;
use wirepath_playback::{Cursor, PlayError};

use crate::images::Image;
use crate::rtsp::player::{BoxFuture, PlaybackFailure};
use crate::sending::{Item, OutputSource, Sequence};

/// Media of a group.
pub(crate) trait GroupMedia: Send + Sync {
    /// Image with the tracks and the packet size of all that is sent.
    fn image(&self) -> &Arc<Image>;

    /// Name, under which plays are counted.
    fn name(&self) -> &str;

    /// Number that only these media have while they exist: media with the same number share a sender.
    fn identity(&self) -> usize;

    /// Returns whether the media have no beginning and end, and are sent from their current position.
    fn is_live(&self) -> bool;

    /// Reason why the media cannot be sent from now on.
    fn failure(&self) -> Option<PlaybackFailure> {
        None
    }

    /// Makes the source, whose packets have the numbers of `streams`.
    fn source(&self, streams: Vec<StreamPlan>, pool: &BlockingPool) -> Arc<dyn GroupSource>;

    /// Name of the single asset that is sent, if it is one.
    fn asset(&self) -> Option<&str> {
        (!self.is_live()).then(|| self.image().name())
    }

    /// Duration in microseconds, if there is an end and it is known.
    fn duration_us(&self) -> Option<u64> {
        self.image().duration_us().filter(|_| !self.is_live())
    }

    /// Number of tracks.
    fn tracks(&self) -> u8 {
        self.image().plan().streams.len() as u8 // 16 at most
    }
}

/// Source of the packets for a group.
pub(crate) trait GroupSource: OutputSource {
    /// Waits for the place where sending starts. None if it starts at the beginning, or where it rested.
    fn wait_for_start(self: Arc<Self>) -> Option<BoxFuture<'static, Result<Cursor, PlayError>>>;
}

/// Longest time in which the newest part of a recording is searched: its beginning is sent if that takes longer.
const NEWEST_LIMIT: Duration = Duration::from_secs(8);

/// An asset, from its beginning to its end; while it is recorded, from its newest part on.
pub(crate) struct AssetMedia(pub(crate) Arc<Image>);

impl GroupMedia for AssetMedia {
    fn image(&self) -> &Arc<Image> {
        &self.0
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn is_live(&self) -> bool {
        self.0.grows_with_recording()
    }

    fn asset(&self) -> Option<&str> {
        Some(self.0.name())
    }

    fn source(&self, streams: Vec<StreamPlan>, pool: &BlockingPool) -> Arc<dyn GroupSource> {
        let item = Item::new(Arc::clone(&self.0));
        item.follow(None);
        Arc::new(Sequence::new(item, streams, pool))
    }
}

impl GroupSource for Sequence {
    fn wait_for_start(self: Arc<Self>) -> Option<BoxFuture<'static, Result<Cursor, PlayError>>> {
        let image = self.image();
        image.grows_with_recording().then(|| {
            let start = async move {
                let newest_us = timeout(NEWEST_LIMIT, image.newest_us()).await.unwrap_or(None);
                image.place_at(newest_us.unwrap_or(0)).await
            };
            Box::pin(start) as BoxFuture<'static, _>
        })
    }
}
