//! A session's playback of an archive: it converts ranges to the archive's time, and plays its source.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::timeout;
use wirepath_media::image::StreamPlan;
use wirepath_playback::{
    self as playback, AccessUnits, IntraPictures, PlayError, PlayRequest, Playbacks, Position, Progress,
    ReplayRequest, StreamProgress, StreamSink,
};

use super::opener::{Opened, Opener, RETRIES, RETRY, Search};
use super::source::ArchiveSource;
use crate::asset_player::{socket_error, stream_sink};
use crate::formats::Formats;
use crate::images::Image;
use crate::plays::Plays;
use crate::rtsp::player::{
    BoxFuture, MediaSink, OpenError, PlayRange, PlaybackFailure, ReplayPlay, Reply, SessionPlayback,
    TrackSource,
};
use crate::waiting_play::WaitingPlay;

/// Longest time in which the newest part of a recording is searched, less than that of a request: a long recording is
/// packed up to there first. Its beginning is played if that takes longer.
const NEWEST_LIMIT: Duration = Duration::from_secs(6);

/// Largest difference between the server's clock and others by which a time is not in the future.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(10);

/// Playback of one session.
pub(super) struct ArchivePlayback {
    /// The first recording, whose tracks and numbers all recordings have.
    pub(super) first: Arc<Image>,
    /// Time 0 of the archive, in microseconds since 1970.
    pub(super) origin_us: i64,
    pub(super) source: Arc<ArchiveSource>,
    pub(super) opener: Opener,
    pub(super) like: Formats,
    pub(super) playback: Arc<playback::Playback>,
    pub(super) playbacks: Arc<Playbacks>,
    pub(super) max_lag_us: u64,
    /// True if packets have the header extensions of ONVIF replay.
    pub(super) is_replay: bool,
    pub(super) plays: Arc<Plays>,
    /// Request to play that waits for a recording.
    pub(super) waiting: WaitingPlay,
}

impl ArchivePlayback {
    /// Converts the time in a reply to the time of the archive.
    fn translated_time(&self, reply: Reply<u64>) -> Reply<u64> {
        let source = Arc::clone(&self.source);
        Box::new(move |result| reply(result.map(|at_us| source.archive_us(at_us))))
    }

    /// Converts the position in a reply to the time of the archive.
    fn translated(&self, reply: Reply<Position>) -> Reply<Position> {
        let source = Arc::clone(&self.source);
        Box::new(move |result| {
            reply(result.map(|at| Position { at_us: source.archive_us(at.at_us), ..at }));
        })
    }

    /// ONVIF replay parameters of a range.
    fn replay_request(&self, range: PlayRange) -> ReplayRequest {
        let ReplayPlay { cseq, unpaced, intra_us } = range.replay;
        let intra = intra_us.zip(self.intra_track());
        let intra = intra.map(|(interval_us, stream)| IntraPictures { stream, interval_us });
        ReplayRequest { cseq, unpaced, intra }
    }
}

/// The sink for packets with the header extensions of ONVIF replay.
pub(super) fn with_replay(sink: StreamSink, image: &Image) -> StreamSink {
    let description = image.summary().description;
    let track = description.movie().and_then(|movie| movie.tracks.get(usize::from(sink.stream)));
    let units = match track {
        Some(track) if !track.video => AccessUnits::AllAlone,
        _ => AccessUnits::SomeAlone,
    };
    StreamSink { replay: Some(units), ..sink }
}

/// Time at which a client begins that plays a recording from now on, in microseconds from its beginning; none if it is
/// not recorded.
async fn live_us(image: &Image) -> Option<u64> {
    match image.newest_us().await {
        None if image.may_be_continued() => Some(image.last_start_us(u64::MAX)),
        newest_us => newest_us,
    }
}

/// Locates a time in microseconds since 1970: finds its recording, and the position in it. Up to the present, a time
/// behind the end of what is recorded is where a client begins that plays from now on.
async fn seek(
    opener: &Opener,
    like: &Formats,
    from_us: i64,
    until_us: Option<i64>,
) -> Result<(Opened, playback::Cursor), PlayError> {
    let mut search = find(opener, from_us, like, |opener, from_us, like| opener.at(from_us, like)).await?;
    let (mut failures, mut before) = (0, None);
    loop {
        let opened = match search {
            Search::Found(opened) => opened,
            Search::End => return newest(before.filter(|_| !is_future(from_us))).await,
            Search::Later(_, error) if failures == RETRIES => {
                return Err(PlayError::Source(format!("a recording cannot be opened: {error}").into()));
            }
            Search::Later(recording, _) => {
                failures += 1;
                tokio::time::sleep(RETRY).await;
                let time_us = from_us.max(recording.start_us);
                search = find(opener, time_us, like, |opener, time, like| opener.at(time, like)).await?;
                continue;
            }
            Search::NotYet(up_to_us) => {
                search = find(opener, up_to_us, like, |opener, time, like| opener.after(time, like)).await?;
                continue;
            }
        };
        let local_us = from_us.saturating_sub(opened.start_us).max(0).unsigned_abs();
        match opened.image.place_at(local_us).await {
            Ok(place) if until_us.is_none_or(|until_us| opened.start_us < until_us) => {
                return Ok((opened, place));
            }
            Ok(_) => return Err(PlayError::BeyondEnd), // the range is in a gap
            // The time is in a gap: the next recording follows.
            Err(PlayError::BeyondEnd) => {
                let start_us = opened.start_us;
                before = Some(opened);
                search = find(opener, start_us, like, |opener, time, like| opener.after(time, like)).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether a time, in microseconds since 1970, is in the future, by a clock that may differ a little from the
/// server's.
fn is_future(time_us: i64) -> bool {
    let latest = SystemTime::now() + CLOCK_DIFFERENCE;
    let latest_us = latest.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros());
    i64::try_from(latest_us).is_ok_and(|latest_us| time_us > latest_us)
}

/// The position in the last recording from which it is played from now on.
async fn newest(last: Option<Opened>) -> Result<(Opened, playback::Cursor), PlayError> {
    let opened = last.ok_or(PlayError::BeyondEnd)?;
    let at_us = live_us(&opened.image).await.ok_or(PlayError::BeyondEnd)?;
    let place = opened.image.place_at(at_us).await?;
    Ok((opened, place))
}

/// A search on a thread that may wait for storage.
async fn find(
    opener: &Opener,
    time_us: i64,
    like: &Formats,
    search: fn(&Opener, i64, &Formats) -> Result<Search, crate::library::FindError>,
) -> Result<Search, PlayError> {
    let (opener, like) = (opener.clone(), like.clone());
    let found = tokio::task::spawn_blocking(move || search(&opener, time_us, &like)).await;
    match found {
        Ok(Ok(search)) => Ok(search),
        Ok(Err(error)) => Err(PlayError::Source(format!("the archive cannot be read: {error}").into())),
        Err(_) => Err(PlayError::Over),
    }
}

impl SessionPlayback for ArchivePlayback {
    fn tracks(&self) -> u8 {
        self.first.plan().streams.len() as u8 // 16 at most
    }

    fn add(&self, track: u8, sink: MediaSink) -> Result<(), OpenError> {
        let sink = stream_sink(&self.first, track, sink, self.max_lag_us);
        let sink = if self.is_replay { with_replay(sink, &self.first) } else { sink };
        self.playbacks.add(&self.playback, sink).map_err(socket_error)
    }

    /// Pictures alone can be played within one recording only.
    fn scanned_track(&self) -> Option<u8> {
        None
    }

    fn intra_track(&self) -> Option<u8> {
        self.first.scanned_track()
    }

    fn clock_origin_us(&self) -> Option<i64> {
        Some(self.origin_us)
    }

    fn newest_us(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async {
            let search = find(&self.opener, i64::MAX, &self.like, Opener::at).await.ok()?;
            let Search::Found(newest) = search else { return None };
            let live_us = timeout(NEWEST_LIMIT, live_us(&newest.image)).await.unwrap_or(Some(0))?;
            let start_us = newest.start_us.saturating_sub(self.origin_us).max(0).unsigned_abs();
            Some(start_us + live_us)
        })
    }

    fn source(&self, track: u8) -> TrackSource {
        let streams = &self.first.plan().streams;
        let StreamPlan { ssrc, clock_hz, .. } =
            streams.get(usize::from(track)).copied().unwrap_or(streams[0]);
        TrackSource { ssrc, clock_hz }
    }

    fn play(&self, range: PlayRange, reply: Reply<Position>) {
        self.waiting.cancel();
        let reply = self.translated(reply);
        let absolute = |us: u64| self.origin_us.saturating_add_unsigned(us);
        let until_us = range.until_us.map(absolute);
        let request =
            PlayRequest { speed: range.speed, replay: self.replay_request(range), ..PlayRequest::default() };
        let Some(from_us) = range.from_us.map(absolute) else {
            self.source.go_on(until_us);
            return self.playback.play_as(request, reply);
        };
        let (source, playback) = (Arc::clone(&self.source), Arc::clone(&self.playback));
        let (opener, like) = (self.opener.clone(), self.like.clone());
        let search = async move { seek(&opener, &like, from_us, until_us).await };
        self.waiting.start_at(search, move |found| match found {
            Ok((opened, place)) => {
                let place = source.begin(opened, place, until_us);
                playback.play_as(PlayRequest { from: Some(place), ..request }, reply);
            }
            Err(error) => reply(Err(error)),
        });
    }

    fn release(&self) {
        self.playback.release();
    }

    fn pause(&self, reply: Reply<u64>) {
        self.waiting.cancel();
        self.playback.pause(self.translated_time(reply));
    }

    fn stop(&self, reply: Reply<u64>) {
        self.waiting.cancel();
        self.playback.stop(self.translated_time(reply));
    }

    fn progress(&self) -> Progress {
        let progress = self.playback.progress();
        Progress { position_us: self.source.archive_us(progress.position_us), ..progress }
    }

    fn track_progress(&self, track: u8) -> StreamProgress {
        self.playback.stream_progress(track)
    }

    fn failure(&self) -> Option<PlaybackFailure> {
        None
    }

    /// An archive grows.
    fn duration_us(&self) -> Option<u64> {
        None
    }

    fn reason(&self) -> &str {
        self.playback.reason()
    }

    fn count_play(&self) {
        self.plays.count(self.opener.folder.path());
    }
}
