//! Events of a stream behind a descriptor, for event loops of the caller.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::event::StreamEvent;

/// Most events that are queued. Later events are counted and dropped.
const MOST: usize = 1024;

/// Descriptor of a stream that polls readable, and its queue of events: for an event loop of the caller, with
/// `poll`, `epoll` or tokio's `AsyncFd`.
///
/// The descriptor is readable (`POLLIN`) if an event is queued or the stream has ended or was dropped.
/// [Taking](StreamEvents::take) all events clears it; after the end of the stream it stays readable.
/// Level-triggered and edge-triggered loops both work: each event, and the end, is an edge. The caller must
/// not read or write the descriptor.
///
/// Clones share the descriptor and the queue: each event is taken once. The descriptor stays usable after the
/// stream is dropped.
#[derive(Clone)]
pub struct StreamEvents(Arc<EventQueue>);

/// Event queue of a stream; empty until the caller asks for events.
#[derive(Clone, Default)]
pub(crate) struct EventSlot(Arc<OnceLock<Arc<EventQueue>>>);

struct EventQueue {
    eventfd: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: VecDeque<StreamEvent>,
    missed: u64,
    has_ended: bool,
}

impl StreamEvents {
    /// Takes the oldest event. After the last event the descriptor is no longer readable, unless the stream
    /// has ended.
    pub fn take(&self) -> Option<StreamEvent> {
        let mut state = self.0.state.lock();
        let event = state.events.pop_front()?;
        if state.events.is_empty() && !state.has_ended {
            self.0.clear();
        }
        Some(event)
    }

    /// Number of events that were dropped because 1,024 were queued.
    pub fn missed(&self) -> u64 {
        self.0.state.lock().missed
    }

    /// Returns whether the stream has ended. [`RunningStream::wait`](crate::RunningStream::wait) then returns
    /// its end without blocking.
    pub fn has_ended(&self) -> bool {
        self.0.state.lock().has_ended
    }
}

impl AsFd for StreamEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.eventfd.as_fd()
    }
}

impl AsRawFd for StreamEvents {
    fn as_raw_fd(&self) -> RawFd {
        self.0.eventfd.as_raw_fd()
    }
}

impl EventSlot {
    /// Opens the queue for events from now on. If the queue is open already, it also has the earlier events.
    pub(crate) fn open(&self) -> io::Result<StreamEvents> {
        if let Some(queue) = self.0.get() {
            return Ok(StreamEvents(Arc::clone(queue)));
        }
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let queue = Arc::new(EventQueue { eventfd, state: Mutex::default() });
        Ok(StreamEvents(Arc::clone(self.0.get_or_init(|| queue))))
    }

    /// Adds an event, if the queue is open.
    pub(crate) fn push(&self, event: &StreamEvent) {
        let Some(queue) = self.0.get() else { return };
        let mut state = queue.state.lock();
        if state.events.len() < MOST {
            state.events.push_back(event.clone());
            queue.signal();
        } else {
            state.missed += 1;
        }
    }

    /// Marks the end of the stream. Further calls have no effect.
    pub(crate) fn end(&self) {
        let Some(queue) = self.0.get() else { return };
        let mut state = queue.state.lock();
        if !std::mem::replace(&mut state.has_ended, true) {
            queue.signal();
        }
    }
}

impl EventQueue {
    /// Makes the descriptor readable; each call is an edge.
    fn signal(&self) {
        // The write fails only if the counter is at its limit; the descriptor is readable then.
        let written = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        debug_assert!(written.is_ok());
    }

    fn clear(&self) {
        let read = rustix::io::read(&self.eventfd, &mut [0; 8]);
        // The caller may have read the descriptor, although the documentation forbids it.
        debug_assert!(matches!(read, Ok(8) | Err(Errno::AGAIN)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Port;

    /// Promise: The descriptor of a stream is readable if an event is pending or the stream has ended.
    #[test]
    fn events_that_nobody_takes_are_bounded_and_counted() {
        let slot = EventSlot::default();
        let event = StreamEvent::InputGone { port: Port(7), name: "input".to_owned() };
        slot.push(&event);
        let events = slot.open().unwrap();
        (0..MOST + 3).for_each(|_| slot.push(&event));
        assert_eq!(events.missed(), 3);
        let other = slot.open().unwrap();
        assert_eq!(std::iter::from_fn(|| other.take()).count(), MOST, "without that before it was opened");
        slot.push(&event);
        assert_eq!((events.take(), other.take()), (Some(event), None));
    }
}
