//! A session's playback of a channel: it plays from now on, whatever range is asked for.

use std::sync::Arc;

use wirepath_playback::{self as playback, PlayRequest, Playbacks, Position, Progress, StreamProgress};

use super::LiveChannel;
use super::source::ChannelSource;
use crate::asset_player::{socket_error, stream_plan, stream_sink};
use crate::plays::Plays;
use crate::rtsp::player::{
    MediaSink, OpenError, PlayRange, PlaybackFailure, Reply, SessionPlayback, TrackSource,
};
use crate::waiting_play::WaitingPlay;

/// Playback of one session.
pub(super) struct ChannelPlayback {
    pub(super) channel: Arc<LiveChannel>,
    pub(super) source: Arc<ChannelSource>,
    pub(super) playback: Arc<playback::Playback>,
    pub(super) playbacks: Arc<Playbacks>,
    pub(super) max_lag_us: u64,
    pub(super) plays: Arc<Plays>,
    /// Request to play that waits for its place.
    pub(super) waiting: WaitingPlay,
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
        self.waiting.cancel();
        let (source, playback) = (Arc::clone(&self.source), Arc::clone(&self.playback));
        self.waiting.start_at(Arc::clone(&self.channel).wait_for_place(), move |place| match place {
            Ok(place) => {
                let from = Some(source.begin(place));
                playback.play_as(PlayRequest { from, ..PlayRequest::default() }, reply);
            }
            Err(error) => reply(Err(error)),
        });
    }

    fn release(&self) {
        self.playback.release();
    }

    fn pause(&self, reply: Reply<u64>) {
        self.waiting.cancel();
        self.playback.pause(reply);
    }

    fn stop(&self, reply: Reply<u64>) {
        self.waiting.cancel();
        self.playback.stop(reply);
    }

    fn progress(&self) -> Progress {
        self.playback.progress()
    }

    fn track_progress(&self, track: u8) -> StreamProgress {
        self.playback.stream_progress(track)
    }

    fn failure(&self) -> Option<PlaybackFailure> {
        self.channel.failure()
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
