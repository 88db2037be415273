//! An archive as a presentation.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;

use wirepath_media::image::StreamPlan;
use wirepath_media::replay::EXTENSION_LENGTH;
use wirepath_media::rtsp::{ClockRange, ClockTime};
use wirepath_media::sdp::Description;
use wirepath_playback::{PlaybackOptions, TrainSource};

use super::Gaps;
use super::folder::{ArchiveFolder, Length};
use super::opener::{EXAMINED, First, OpenFailure, Opened, Opener};
use super::playback::{ArchivePlayback, with_replay};
use super::source::{ArchiveSource, feed};
use crate::asset_player::{
    AssetPlayer, blocking, find_error, limits_error, open_error, socket_error, stream_sink,
};
use crate::describe::describe;
use crate::formats::Formats;
use crate::library::FindError;
use crate::rtsp::player::{
    BoxFuture, Joined, MediaSink, OnEvent, OpenError, Presentation, SessionPlayback, trailer,
};
use crate::waiting_play::WaitingPlay;

/// An archive that a client opened.
#[derive(Clone)]
pub(crate) struct ArchivePresentation {
    player: AssetPlayer,
    opener: Opener,
    gaps: Gaps,
    first: Opened,
    /// End of the last recording in microseconds since 1970, if known.
    end_us: Option<i64>,
    /// True if packets have the header extensions of ONVIF replay.
    is_replay: bool,
}

impl ArchivePresentation {
    /// Opens an archive. Waits for storage.
    pub(crate) fn open(
        player: AssetPlayer,
        folder: Arc<ArchiveFolder>,
        client: IpAddr,
        gaps: Gaps,
    ) -> Result<ArchivePresentation, OpenError> {
        let limits = player.store.usual_limits();
        let opener = Opener { folder, client, limits };
        let first = first(&opener)?;
        let end_us = end_us(&opener.folder).map_err(find_error)?.filter(|end_us| *end_us > first.start_us);
        Ok(ArchivePresentation { player, opener, gaps, first, end_us, is_replay: false })
    }

    /// An opener for recordings whose packets fit the path of a socket, and the first recording.
    async fn fitting(&self, socket: &UdpSocket, trailer: u32) -> Result<(Opener, Opened), OpenError> {
        let limits = self.player.store.limits_of(socket, trailer).map_err(limits_error)?;
        let opener = Opener { limits, ..self.opener.clone() };
        let recipe = self.first.image.plan().recipe;
        if limits.recipe_like(recipe) == recipe {
            return Ok((opener, self.first.clone()));
        }
        blocking(move || first(&opener).map(|first| (opener, first))).await
    }
}

/// The first recording that can be played. Waits for storage.
fn first(opener: &Opener) -> Result<Opened, OpenError> {
    let not_yet = |why: &str| Err(OpenError::NotYet(why.to_owned()));
    match opener.first().map_err(find_error)? {
        First::Found(first) => Ok(first),
        First::None => {
            let why = "the archive has no recording that can be played: see /api/status, or its names and --archive";
            Err(OpenError::NotPlayable(why.to_owned()))
        }
        First::Growing => {
            not_yet("the first recording of the archive is still being written; try again later")
        }
        First::NotYet => not_yet(
            "the search for the first recording of the archive that can be played is not finished, as with many \
             that cannot (see /api/status); try again: it continues",
        ),
        First::Later(OpenFailure::Find(error)) => Err(find_error(error)),
        First::Later(OpenFailure::Store(error)) => Err(open_error(error)),
    }
}

/// End of the last recording that can be played, in microseconds since 1970; none if it does not tell its
/// duration.
fn end_us(folder: &ArchiveFolder) -> Result<Option<i64>, FindError> {
    let recordings = folder.recordings()?;
    for recording in recordings.all().iter().rev().take(EXAMINED) {
        match folder.length(recording, &recordings) {
            Ok(Length::Known(duration_us)) => {
                return Ok(Some(recording.start_us.saturating_add_unsigned(duration_us)));
            }
            Ok(Length::Unknown) => return Ok(None),
            Ok(Length::NotPlayable) | Err(_) => {}
        }
    }
    Ok(None)
}

impl Presentation for ArchivePresentation {
    fn describe(&self) -> Description {
        let (start_us, end_us) = (self.first.start_us, self.end_us);
        Description {
            version: end_us.unwrap_or(start_us).unsigned_abs(),
            duration_us: end_us.map(|end_us| end_us.saturating_sub(start_us).unsigned_abs()),
            clock: Some(ClockRange { start: ClockTime(start_us), end: end_us.map(ClockTime) }),
            has_replay: self.is_replay,
            ..describe(&self.first.image, self.opener.folder.path())
        }
    }

    fn with_replay(&self) -> Option<Arc<dyn Presentation>> {
        Some(Arc::new(ArchivePresentation { is_replay: true, ..self.clone() }))
    }

    fn bits_per_second(&self) -> Option<u64> {
        self.first.image.summary().bits_per_second()
    }

    fn tracks(&self) -> u8 {
        self.first.image.plan().streams.len() as u8 // 16 at most
    }

    fn set_up(
        &self,
        track: u8,
        sink: MediaSink,
        most_burst_us: Option<u64>,
        on_event: OnEvent,
    ) -> BoxFuture<'_, Result<Box<dyn SessionPlayback>, OpenError>> {
        Box::pin(async move {
            let (opener, first) = match &sink {
                MediaSink::Udp(socket, key) => {
                    let extension = if self.is_replay { EXTENSION_LENGTH as u32 } else { 0 };
                    self.fitting(socket, trailer(key.as_ref()) + extension).await?
                }
                MediaSink::Interleaved(..) => (self.opener.clone(), self.first.clone()),
            };
            let AssetPlayer { playbacks, max_lag_us, bursts, plays, .. } = &self.player;
            let (image, origin_us, like) =
                (Arc::clone(&first.image), first.start_us, Formats::of(&first.image.summary().description));
            let streams: Vec<StreamPlan> = image.plan().streams.to_vec();
            let source =
                ArchiveSource::new(first, streams, self.gaps, self.is_replay, playbacks.engine().pool());
            let sink = stream_sink(&image, track, sink, *max_lag_us);
            let options = PlaybackOptions {
                source: Arc::clone(&source) as Arc<dyn TrainSource>,
                streams: self.tracks(),
                sink: if self.is_replay { with_replay(sink, &image) } else { sink },
                most_burst_us: most_burst_us.unwrap_or(u64::MAX).min(bursts.most_us(opener.folder.path())),
                on_event,
            };
            let playback = Arc::new(playbacks.open(options).map_err(socket_error)?);
            tokio::spawn(feed(Arc::downgrade(&source), opener.clone(), like.clone()));
            let (playbacks, plays) = (Arc::clone(playbacks), Arc::clone(plays));
            Ok(Box::new(ArchivePlayback {
                first: image,
                origin_us,
                source,
                opener,
                like,
                playback,
                playbacks,
                max_lag_us: *max_lag_us,
                is_replay: self.is_replay,
                plays,
                waiting: WaitingPlay::default(),
            }) as Box<dyn SessionPlayback>)
        })
    }

    fn join(&self, _on_event: OnEvent) -> BoxFuture<'_, Result<Joined, OpenError>> {
        let why = "archives are not sent to multicast groups; ask for UDP or TCP of your own";
        Box::pin(async move { Err(OpenError::NotPlayable(why.to_owned())) })
    }
}
