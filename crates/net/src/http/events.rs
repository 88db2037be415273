//! `GET /api/events`: the status as server-sent events, rendered once for all listeners.
//!
//! Nothing is rendered without listeners. A slow listener gets the latest snapshot after it has read the
//! previous snapshot: no snapshots are queued for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use wirepath_http::Response;

/// Maximum number of concurrent listeners.
pub const MOST_LISTENERS: usize = 64;

/// Interval between snapshots.
const PERIOD: Duration = Duration::from_secs(1);

/// Minimum pause as a multiple of the rendering time, so that with thousands of sessions rendering uses at
/// most a twentieth of a processor.
const PAUSE_PER_RENDERING: u32 = 19;

/// Time without events after which a comment is sent, so that proxies and firewalls keep the connection open.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Comment line, which clients ignore.
const COMMENT: &[u8] = b":\n\n";

/// Beginning of a stream: the reconnection time of a client that lost its connection.
pub(super) const PREAMBLE: &[u8] = b"retry: 2000\n\n";

/// Snapshot as an event, shared by all listeners.
type Event = Arc<[u8]>;

/// Renders the status.
type Render = dyn Fn() -> String + Send + Sync;

/// Snapshots of the status for listeners.
#[derive(Clone)]
pub(super) struct Events(Arc<Shared>);

struct Shared {
    render: Box<Render>,
    latest: watch::Sender<Event>,
    /// True while a task renders snapshots.
    is_rendered: Mutex<bool>,
}

impl Events {
    /// Events with the output of `render`, a line of text.
    pub(super) fn new(render: impl Fn() -> String + Send + Sync + 'static) -> Events {
        let latest = watch::Sender::new(Event::from([]));
        Events(Arc::new(Shared { render: Box::new(render), latest, is_rendered: Mutex::new(false) }))
    }

    /// Adds a subscription, unless the limit is reached. Must be called on a tokio runtime.
    pub(super) fn subscribe(&self) -> Option<Subscription> {
        let shared = &self.0;
        let mut is_rendered = shared.is_rendered.lock();
        if shared.latest.receiver_count() >= MOST_LISTENERS {
            return None;
        }
        let mut latest = shared.latest.subscribe();
        if *is_rendered {
            // There may be no snapshot yet: an empty event is not sent.
            latest.mark_changed();
        } else {
            *is_rendered = true;
            tokio::spawn(render(Arc::clone(shared)));
        }
        Some(Subscription(latest))
    }
}

/// Subscription of a listener.
#[derive(Debug)]
pub struct Subscription(watch::Receiver<Event>);

impl Subscription {
    /// Waits for the next bytes to send; `None` at the end.
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

/// Head of an event stream. The stream has no length and ends with its connection.
pub(super) fn response() -> Response {
    let fields = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // nginx would otherwise buffer events until its buffer is full.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value)));
    Response { headers: HeaderMap::from_iter(fields), ..Response::empty(StatusCode::OK) }
}

/// Renders snapshots while there are listeners, on a thread that may be busy for a while.
async fn render(shared: Arc<Shared>) {
    loop {
        let (begun, rendering) = (Instant::now(), Arc::clone(&shared));
        match tokio::task::spawn_blocking(move || (rendering.render)()).await {
            Ok(text) => _ = shared.latest.send_replace(event(&text)),
            Err(error) => tracing::error!(%error, "rendering the status failed; retrying"),
        }
        let pause = PERIOD.max(begun.elapsed() * PAUSE_PER_RENDERING);
        // A listener that reconnects gets a snapshot immediately, so the pause is not cut short.
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
