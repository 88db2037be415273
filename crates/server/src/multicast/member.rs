//! A session's membership in a group: it starts the sender, or joins it at its current position.

use std::sync::Arc;

use wirepath_playback::{Position, Progress, StreamProgress};

use super::sender::GroupSender;
use crate::plays::Plays;
use crate::rtsp::player::{
    MediaSink, OnEvent, OpenError, PlayRange, PlaybackFailure, Reply, SessionPlayback, TrackSource,
};

/// Member of a group.
pub(crate) struct Member {
    sender: Arc<GroupSender>,
    number: u64,
    plays: Arc<Plays>,
}

impl Member {
    pub(super) fn new(sender: Arc<GroupSender>, on_event: OnEvent, plays: Arc<Plays>) -> Member {
        let number = sender.enter(on_event);
        Member { sender, number, plays }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.sender.leave(self.number);
    }
}

impl SessionPlayback for Member {
    fn tracks(&self) -> u8 {
        self.sender.media().tracks()
    }

    /// All tracks are sent, whichever tracks the sessions set up.
    fn add(&self, _track: u8, _sink: MediaSink) -> Result<(), OpenError> {
        Ok(())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_live(&self) -> bool {
        self.sender.media().is_live()
    }

    fn scanned_track(&self) -> Option<u8> {
        None
    }

    fn source(&self, track: u8) -> TrackSource {
        self.sender.source(track)
    }

    /// Plays from the sender's position; the requested range has no effect.
    fn play(&self, _range: PlayRange, reply: Reply<Position>) {
        self.sender.play(self.number, reply);
    }

    fn release(&self) {}

    fn pause(&self, reply: Reply<u64>) {
        self.sender.pause(self.number, reply);
    }

    fn stop(&self, reply: Reply<u64>) {
        self.sender.stop(self.number, reply);
    }

    fn progress(&self) -> Progress {
        self.sender.progress()
    }

    fn track_progress(&self, track: u8) -> StreamProgress {
        self.sender.track_progress(track)
    }

    fn failure(&self) -> Option<PlaybackFailure> {
        let reason = "sending to the group has ended; SETUP a new session".to_owned();
        let is_over = self.sender.is_over().then_some(PlaybackFailure { reason, is_asset: false });
        is_over.or_else(|| self.sender.media().failure())
    }

    fn duration_us(&self) -> Option<u64> {
        self.sender.media().duration_us()
    }

    fn reason(&self) -> &str {
        self.sender.reason()
    }

    fn asset(&self) -> Option<&str> {
        self.sender.media().asset()
    }

    fn count_play(&self) {
        self.plays.count(self.sender.media().name());
    }
}
