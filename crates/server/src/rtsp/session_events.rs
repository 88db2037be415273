//! Events of a connection's sessions, on their way from engine threads.

use super::player::PlayRange;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
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

/// Queue of events with one reader. It takes memory only while there are events, unlike a channel of tokio,
/// which keeps 2 KiB. It has no limit of its own, but requests limit it: each causes a reply and an end, and
/// an administrator causes one end for each session.
#[derive(Debug, Default)]
pub(super) struct SessionEvents(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<SessionEvent>,
    /// Present while the reader waits. A future of tokio's `Notify` is larger.
    reader: Option<Waker>,
}

impl SessionEvents {
    /// Adds an event, from any thread. If the connection is gone, its sessions are, too, and nobody reads the
    /// event.
    pub(super) fn add(&self, event: SessionEvent) {
        let mut queue = self.0.lock();
        queue.events.push_back(event);
        let reader = queue.reader.take();
        drop(queue);
        reader.into_iter().for_each(Waker::wake);
    }

    /// The next event, in order. If the future is dropped, no event is lost.
    pub(super) async fn next(&self) -> SessionEvent {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&self, context: &Context<'_>) -> Poll<SessionEvent> {
        let mut queue = self.0.lock();
        let event = queue.events.pop_front();
        if queue.events.is_empty() {
            queue.events = VecDeque::new();
        }
        match event {
            Some(event) => Poll::Ready(event),
            None => {
                queue.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
