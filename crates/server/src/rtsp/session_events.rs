//! Events of a connection's sessions, on their way from engine threads.

use super::player::PlayRange;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;
use wirepath_playback::{PlayError, PlaybackEvent, Position};

/// Event of a session's playback; events come in order.
#[derive(Debug)]
pub(super) struct SessionEvent {
    /// Key of the session.
    pub(super) key: u64,
    pub(super) kind: EventKind,
}

#[derive(Debug)]
pub(super) enum EventKind {
    /// Reply to the request to play with this number.
    Started(u64, PlayRange, Result<Position, PlayError>),
    /// Reply to the request to pause with this number.
    Paused(u64, Result<u64, PlayError>),
    /// Event without a request.
    Event(PlaybackEvent),
    /// An administrator ends the session.
    Ended,
}

/// Queue of events with one reader. It takes memory when there are events only, unlike a channel of tokio,
/// which keeps 2 KiB. Without a bound of its own, but bounded by requests: an answer and an end each, and one
/// end by an administrator for each session.
#[derive(Debug, Default)]
pub(super) struct SessionEvents {
    queue: Mutex<VecDeque<SessionEvent>>,
    added: Notify,
}

impl SessionEvents {
    /// Adds an event, from any thread. Nobody reads it if the connection is gone, and the session with it.
    pub(super) fn add(&self, event: SessionEvent) {
        self.queue.lock().push_back(event);
        self.added.notify_one();
    }

    /// The next event, in order. If the future is dropped, no event is lost.
    pub(super) async fn next(&self) -> SessionEvent {
        loop {
            if let Some(event) = self.take() {
                return event;
            }
            self.added.notified().await;
        }
    }

    fn take(&self) -> Option<SessionEvent> {
        let mut queue = self.queue.lock();
        let event = queue.pop_front();
        if queue.is_empty() {
            *queue = VecDeque::new();
        }
        event
    }
}
