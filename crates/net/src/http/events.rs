//! `GET /api/events`: the status as server-sent events, rendered once for all who listen.
//!
//! Nothing is rendered while nobody listens. A listener that reads slowly gets the latest snapshot when it
//! has read the one before: nothing is queued for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use wirepath_http::Response;

/// Most listeners at a time.
pub const MOST_LISTENERS: usize = 64;

/// Time between two snapshots.
const PERIOD: Duration = Duration::from_secs(1);

/// Pauses are at least so many times as long as rendering took: with thousands of sessions, it uses a
/// twentieth of a processor and no more.
const PAUSE_PER_RENDERING: u32 = 19;

/// Silence after which a comment is sent, so that no proxy or firewall takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Comment line, which clients ignore.
const COMMENT: &[u8] = b":\n\n";

/// Beginning of a stream: the time after which a client that lost its connection connects again.
pub(super) const PREAMBLE: &[u8] = b"retry: 2000\n\n";

/// Snapshot as an event, shared by all listeners.
type Event = Arc<[u8]>;

/// Renders the status.
type Render = dyn Fn() -> String + Send + Sync;

/// Snapshots of the status for those who listen.
#[derive(Clone)]
pub(super) struct Events(Arc<Shared>);

struct Shared {
    render: Box<Render>,
    latest: watch::Sender<Event>,
    /// A task renders snapshots.
    is_rendered: Mutex<bool>,
}

impl Events {
    /// Events with what `render` returns, a line of text.
    pub(super) fn new(render: impl Fn() -> String + Send + Sync + 'static) -> Events {
        let latest = watch::Sender::new(Event::from([]));
        Events(Arc::new(Shared { render: Box::new(render), latest, is_rendered: Mutex::new(false) }))
    }

    /// A subscription, unless there are as many as there may be. Must be called on a tokio runtime.
    pub(super) fn subscribe(&self) -> Option<Subscription> {
        let shared = &self.0;
        let mut is_rendered = shared.is_rendered.lock();
        if shared.latest.receiver_count() >= MOST_LISTENERS {
            return None;
        }
        let mut latest = shared.latest.subscribe();
        if *is_rendered {
            // There may be none yet: an empty event is not sent.
            latest.mark_changed();
        } else {
            *is_rendered = true;
            tokio::spawn(render(Arc::clone(shared)));
        }
        Some(Subscription(latest))
    }
}

/// A listener's place among the listeners.
#[derive(Debug)]
pub struct Subscription(watch::Receiver<Event>);

impl Subscription {
    /// Waits for the next bytes to send; none if no more will come.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            match timeout(HEARTBEAT, self.0.changed()).await {
                Ok(Ok(())) => {
                    let event = Arc::clone(&self.0.borrow_and_update());
                    if !event.is_empty() {
                        return Some(event);
                    }
                }
                Ok(Err(_)) => return None,
                Err(_) => return Some(Event::from(COMMENT)),
            }
        }
    }
}

/// The head of a stream of events. It has no length and ends with its connection.
pub(super) fn response() -> Response {
    let fields = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // nginx would collect events until its buffer is full.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value)));
    Response { headers: HeaderMap::from_iter(fields), ..Response::empty(StatusCode::OK) }
}

/// Renders snapshots while somebody listens, on a thread that may be busy for a while.
async fn render(shared: Arc<Shared>) {
    loop {
        let (begun, rendering) = (Instant::now(), Arc::clone(&shared));
        match tokio::task::spawn_blocking(move || (rendering.render)()).await {
            Ok(text) => _ = shared.latest.send_replace(event(&text)),
            Err(error) => tracing::error!(%error, "rendering the status failed; retrying"),
        }
        let pause = PERIOD.max(begun.elapsed() * PAUSE_PER_RENDERING);
        // Whoever comes back at once gets a snapshot at once, so the pause is not cut short.
        tokio::time::sleep(pause).await;
        let mut is_rendered = shared.is_rendered.lock();
        if shared.latest.receiver_count() == 0 {
            *is_rendered = false;
            return;
        }
    }
}

fn event(text: &str) -> Event {
    debug_assert!(!text.contains('\n'), "an event's data is one line");
    format!("data: {text}\n\n").into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test);
    }

    /// Promise: The status is rendered once for all listeners of `/api/events`, and only while there are
    /// listeners.
    #[test]
    fn one_rendering_is_for_all() {
        static RENDERED: AtomicUsize = AtomicUsize::new(0);
        run(async {
            let events = Events::new(|| format!("{{\"number\":{}}}", RENDERED.fetch_add(1, Relaxed)));
            assert_eq!(RENDERED.load(Relaxed), 0);
            let mut listeners: Vec<_> = (0..MOST_LISTENERS).map(|_| events.subscribe()).collect();
            assert!(events.subscribe().is_none(), "there is a limit");
            for listener in &mut listeners {
                let listener = listener.as_mut().expect("within the limit");
                assert_eq!(&*listener.next().await.expect("an event"), b"data: {\"number\":0}\n\n");
            }
            listeners.pop();
            let mut late = events.subscribe().expect("a place became free");
            let event = late.next().await.expect("the latest, at once");
            assert_eq!((&*event, RENDERED.load(Relaxed)), (&b"data: {\"number\":0}\n\n"[..], 1));
        });
    }

    #[test]
    fn rendering_ends_with_the_last_listener_and_begins_with_the_next() {
        static RENDERED: AtomicUsize = AtomicUsize::new(0);
        run(async {
            let events = Events::new(|| RENDERED.fetch_add(1, Relaxed).to_string());
            let mut first = events.subscribe().expect("the first");
            assert_eq!(&*first.next().await.expect("an event"), b"data: 0\n\n");
            drop(first);
            while *events.0.is_rendered.lock() {
                tokio::task::yield_now().await;
            }
            assert_eq!(RENDERED.load(Relaxed), 1);
            let mut second = events.subscribe().expect("the second");
            assert_eq!(&*second.next().await.expect("an event"), b"data: 1\n\n");
        });
    }
}
