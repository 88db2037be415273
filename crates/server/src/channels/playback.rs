//! A session's playback of a channel: it plays from now on, whatever range is asked for.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use wirepath_playback::{
    self as playback, PlayError, PlayRequest, Playbacks, Position, Progress, StreamProgress,
};

use super::LiveChannel;
use super::source::ChannelSource;
use super::timeline::Place;
use crate::asset_player::{socket_error, stream_plan, stream_sink};
use crate::plays::Plays;
use crate::rtsp::player::{
    MediaSink, OpenError, PlayRange, PlaybackFailure, Reply, SessionPlayback, TrackSource,
};

/// Time until the next attempt to find a place while none is known.
const RETRY: Duration = Duration::from_millis(50);

/// Time limit of finding a place: less than that of answering a request.
const LIMIT: Duration = Duration::from_secs(15);

/// Playback of one session.
pub(super) struct ChannelPlayback {
    pub(super) channel: Arc<LiveChannel>,
    pub(super) source: Arc<ChannelSource>,
    pub(super) playback: Arc<playback::Playback>,
    pub(super) playbacks: Arc<Playbacks>,
    pub(super) max_lag_us: u64,
    pub(super) plays: Arc<Plays>,
    /// Dropped to cancel a request to play that waits for its place.
    pub(super) waiting: Mutex<Option<oneshot::Sender<()>>>,
}

impl ChannelPlayback {
    fn cancel_waiting(&self) {
        self.waiting.lock().take();
    }
}

/// Waits for the next place where a decoder can begin, until its packets are due.
async fn join(channel: &LiveChannel) -> Option<Place> {
    let place = async {
        loop {
            match channel.timeline.next_place() {
                Some(place) => return place,
                None => tokio::time::sleep(RETRY).await,
            }
        }
    };
    let place = tokio::time::timeout(LIMIT, place).await.ok()?;
    let wait_us = place.at_us.saturating_sub(channel.timeline.now_us());
    if wait_us > LIMIT.as_micros() as u64 {
        return None; // nothing is on
    }
    tokio::time::sleep(Duration::from_micros(wait_us)).await;
    Some(place)
}

impl SessionPlayback for ChannelPlayback {
    fn tracks(&self) -> u8 {
        self.channel.first.plan().streams.len() as u8 // 16 at most
    }

    fn add(&self, track: u8, sink: MediaSink) -> Result<(), OpenError> {
        let sink = stream_sink(&self.channel.first, track, sink, self.max_lag_us);
        self.playbacks.add(&self.playback, sink).map_err(socket_error)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_live(&self) -> bool {
        true
    }

    fn scanned_track(&self) -> Option<u8> {
        None
    }

    fn source(&self, track: u8) -> TrackSource {
        let plan = stream_plan(&self.channel.first, track);
        TrackSource { ssrc: plan.ssrc, clock_hz: plan.clock_hz }
    }

    fn play(&self, _range: PlayRange, reply: Reply<Position>) {
        self.cancel_waiting();
        let (waiting, cancelled) = oneshot::channel::<()>();
        *self.waiting.lock() = Some(waiting);
        let (channel, source) = (Arc::clone(&self.channel), Arc::clone(&self.source));
        let playback = Arc::clone(&self.playback);
        tokio::spawn(async move {
            let place = tokio::select! {
                biased; // A cancelled request must not start, though its place is there now.
                _ = cancelled => return reply(Err(PlayError::Superseded)),
                place = join(&channel) => place,
            };
            let Some(place) = place else {
                return reply(Err(PlayError::Source("nothing is on the channel; try again later".into())));
            };
            let from = Some(source.begin(place));
            playback.play_as(PlayRequest { from, ..PlayRequest::default() }, reply);
        });
    }

    fn release(&self) {
        self.playback.release();
    }

    fn pause(&self, reply: Reply<u64>) {
        self.cancel_waiting();
        self.playback.pause(reply);
    }

    fn progress(&self) -> Progress {
        self.playback.progress()
    }

    fn track_progress(&self, track: u8) -> StreamProgress {
        self.playback.stream_progress(track)
    }

    fn failure(&self) -> Option<PlaybackFailure> {
        None
    }

    /// A channel has no end.
    fn duration_us(&self) -> Option<u64> {
        None
    }

    fn reason(&self) -> &str {
        self.playback.reason()
    }

    fn count_play(&self) {
        self.plays.count(self.channel.name());
    }
}
