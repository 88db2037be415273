//! One client's playing of one presentation, owned by its connection.

use super::control;
use super::counters::EndReason;
use super::player::{Playback, Presentation};
use super::record::{Place, Record, Stage};
use super::timeline::{Phase, Stretch, Timeline};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use wirepath_counters::Label;
use wirepath_media::rtsp::Refusal;
use wirepath_playback::{PlayError, PlaybackEvent, Position};

/// Something a session's playback did, in the order it did it.
#[derive(Debug)]
pub(super) struct SessionEvent {
    /// Which session.
    pub(super) key: u64,
    /// What.
    pub(super) kind: EventKind,
}

#[derive(Debug)]
pub(super) enum EventKind {
    /// Answer to the request with this number.
    Started(u64, Stretch, Result<Position, PlayError>),
    /// Answer to the request with this number.
    Paused(u64, Result<u64, PlayError>),
    /// Of its own.
    Event(PlaybackEvent),
}

/// Sender of session events. Unbounded as a channel, but bounded by the requests: an answer and an end each.
pub(super) type EventSender = UnboundedSender<SessionEvent>;

pub(super) struct Session {
    /// Identifier given to the client.
    pub(super) id: String,
    /// Path of the presentation.
    pub(super) path: Vec<u8>,
    /// URL of the track, as the client set it up.
    pub(super) track_url: String,
    pub(super) presentation: Arc<dyn Presentation>,
    pub(super) playback: Arc<dyn Playback>,
    pub(super) record: Arc<Record>,
    pub(super) timeline: Timeline,
    events: EventSender,
    control: JoinHandle<()>,
    last_ticket: u64,
    place: Place,
}

/// Parts of a session.
pub(super) struct Parts {
    pub(super) id: String,
    pub(super) path: Vec<u8>,
    pub(super) track_url: String,
    pub(super) presentation: Arc<dyn Presentation>,
    pub(super) playback: Arc<dyn Playback>,
    pub(super) record: Arc<Record>,
    pub(super) events: EventSender,
    pub(super) place: Place,
}

impl Session {
    /// Sets up what `parts` are of, and its RTCP.
    pub(super) fn new(parts: Parts, report_interval: Duration) -> Self {
        let Parts { id, path, track_url, presentation, playback, record, events, place } = parts;
        let control = tokio::spawn(control::serve(Arc::clone(&record), report_interval));
        place.fill(Arc::clone(&record));
        record.counters.sessions.increment();
        record.counters.sessions_started.increment();
        let timeline = Timeline::new();
        Self {
            id,
            path,
            track_url,
            presentation,
            playback,
            record,
            timeline,
            events,
            control,
            last_ticket: 0,
            place,
        }
    }

    /// Key of the session in events.
    pub(super) fn key(&self) -> u64 {
        self.place.key
    }

    /// Asks the playback to play; the number of the answer to come.
    pub(super) fn start(&mut self, stretch: Stretch) -> u64 {
        let (ticket, key, events) = self.ticket();
        let reply = Box::new(move |result| {
            // The connection is gone, and the session with it.
            _ = events.send(SessionEvent { key, kind: EventKind::Started(ticket, stretch, result) });
        });
        self.playback.play(stretch.from_us, stretch.until_us, reply);
        ticket
    }

    /// Asks the playback to rest; the number of the answer to come.
    pub(super) fn pause(&mut self) -> Result<u64, Refusal> {
        self.timeline.pause()?;
        Ok(self.ask_to_rest())
    }

    /// Calls off what was asked for: nothing plays after this, whatever the answers on their way say.
    pub(super) fn call_off(&mut self) {
        self.ask_to_rest();
        self.rest();
    }

    /// Follows what the playback did. A reason is given back where that ends the session.
    pub(super) fn follow(&mut self, kind: &EventKind) -> Option<EndReason> {
        match kind {
            // Something else was asked for since: the answer to that says what is.
            EventKind::Started(ticket, ..) | EventKind::Paused(ticket, _) if *ticket != self.last_ticket => {}
            EventKind::Started(_, stretch, Ok(_)) => {
                self.record.counters.plays.increment();
                self.timeline.started(*stretch);
                self.enter(Stage::Playing);
            }
            // What was playing plays on: the place asked for was not there, and the engine was not troubled.
            EventKind::Started(.., Err(_)) if self.playback.progress().clock.is_some() => {}
            EventKind::Started(.., Err(_)) => self.call_off(),
            EventKind::Paused(..) => self.rest(),
            EventKind::Event(PlaybackEvent::Finished) => self.finish(),
            EventKind::Event(PlaybackEvent::Failed(error)) if error.is_unreachable() => {
                return Some(EndReason::Unreachable);
            }
            EventKind::Event(PlaybackEvent::Failed(error)) => {
                tracing::warn!(peer = %self.record.peer, path = self.record.path, %error, "a session failed");
                return Some(EndReason::Failed);
            }
        }
        None
    }

    /// Asks the playback to rest for good; told, or dropped, when its last packet has left.
    pub(super) fn pause_and_drain(&mut self) -> oneshot::Receiver<()> {
        self.record.note_clock(); // BYE needs it, and the playback's stops when it rests.
        let (told, silent) = oneshot::channel();
        // Whoever wants to know may have waited too long already.
        self.playback.pause(Box::new(move |_| _ = told.send(())));
        silent
    }

    /// Ends it. If anybody may still listen, BYE is the last that is sent (RFC 3550 section 6.3.7): call this
    /// when the playback is silent.
    pub(super) fn end(self, reason: EndReason) {
        tracing::info!(peer = %self.record.peer, path = self.record.path, reason = reason.name(), "session ends");
        if reason != EndReason::Unreachable {
            self.record.send_bye();
        }
        self.record.counters.sessions_ended.increment(reason);
    }

    fn ask_to_rest(&mut self) -> u64 {
        let (ticket, key, events) = self.ticket();
        self.playback.pause(Box::new(move |result| {
            // As above.
            _ = events.send(SessionEvent { key, kind: EventKind::Paused(ticket, result) });
        }));
        ticket
    }

    fn ticket(&mut self) -> (u64, u64, EventSender) {
        self.last_ticket += 1;
        (self.last_ticket, self.key(), self.events.clone())
    }

    fn finish(&mut self) {
        match self.timeline.finished() {
            Some(next) => _ = self.start(next),
            None if *self.record.stage.borrow() == Stage::Playing => self.enter(Stage::Ended),
            None => {}
        }
    }

    fn rest(&mut self) {
        self.timeline.paused();
        if self.timeline.phase() == Phase::Ready {
            self.enter(Stage::Resting);
        }
    }

    fn enter(&self, stage: Stage) {
        self.record.stage.send_replace(stage);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.control.abort();
        self.record.counters.sessions.decrement();
    }
}
