//! A stream on the engine, as a task waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use wirepath_streams::{
    Engine, Framing, Growth, Object, RunningStream, STANDSTILL_LOOKS, Standstill, Stream, StreamBuilder,
    StreamEnd, StreamError, StreamOptions, StreamProgress, now_us,
};

use super::Shared;
use super::origin::Reply;
use super::store::{Room, Writing};

/// How long those at the ends of a stream may pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Who is to send.
    pub(super) source: Duration,
    /// Who is to take what waits.
    pub(super) sink: Duration,
}

/// A running stream. It is stopped when this is dropped.
pub(super) struct Flow {
    running: RunningStream,
    told: oneshot::Receiver<StreamEnd>,
}

/// How many bytes left, and why they are not all, if they are not.
pub(super) type Moved = (u64, Result<(), String>);

impl Patience {
    /// Nobody is hurried.
    pub(super) const ENDLESS: Patience = Patience { source: Duration::MAX, sink: Duration::MAX };
}

impl Flow {
    pub(super) fn start(engine: &Engine, stream: Stream) -> Flow {
        let (tell, told) = oneshot::channel();
        // Nobody listens only if this was dropped.
        let on_end = Box::new(move |end| drop(tell.send(end)));
        let options = StreamOptions { on_end: Some(on_end), ..StreamOptions::default() };
        Flow { running: engine.start_stream(stream, options), told }
    }

    /// What it moved so far.
    pub(super) fn progress(&self) -> &Arc<StreamProgress> {
        self.running.progress()
    }

    /// Has it end.
    pub(super) fn stop(&self) {
        self.running.stop();
    }

    /// Waits for its end, once. Stops it when one of its ends has paused for longer than it may, at the next look, unless the one
    /// `beside` it moves.
    pub(super) async fn end(&mut self, patience: Patience, beside: Option<&StreamProgress>) -> Moved {
        let pause = (patience.source.min(patience.sink) / STANDSTILL_LOOKS).max(Duration::from_millis(1));
        let mut standstill = Standstill::default();
        let mut stalled = None;
        loop {
            match timeout(pause, &mut self.told).await {
                Ok(Ok(end)) => {
                    let words = |error: StreamError| match stalled {
                        Some(limit) => {
                            format!("nothing moved for at least {}", humantime::format_duration(limit))
                        }
                        None => error.to_string(),
                    };
                    return (end.status.bytes_out, end.result.map_err(words));
                }
                Ok(Err(_)) => return (self.progress().bytes_out(), Err("the engine has ended".to_owned())),
                Err(_) => {
                    let Some(state) = self.state().await else { continue }; // its end is there
                    let limit = if state.waits { patience.sink } else { patience.source };
                    let others = beside.map_or(0, |other| other.bytes_in() + other.bytes_out());
                    let signs = (state.bytes, state.on_its_way, others);
                    if Duration::from_micros(standstill.of(signs, now_us())) >= limit {
                        stalled = Some(limit);
                        self.stop();
                    }
                }
            }
        }
    }

    /// How far it is, as its engine thread knows between two turns; None if it is over.
    pub(super) async fn state(&self) -> Option<State> {
        let (tell, told) = oneshot::channel();
        self.running.with(move |stream| {
            let status = stream.status();
            let bytes = status.bytes_in + status.bytes_out;
            let waits =
                status.bytes_pending > 0 || status.outputs.iter().any(|output| output.waiting_bytes > 0);
            let on_its_way = stream.unacknowledged();
            // Nobody listens only if that is not wanted any more.
            _ = tell.send(State { bytes, bytes_out: status.bytes_out, on_its_way, waits });
        });
        told.await.ok()
    }
}

/// How far a stream is.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// In and out.
    bytes: u64,
    pub(super) bytes_out: u64,
    /// What its output took, and has not come any further.
    on_its_way: u64,
    /// Whether something waits for its output.
    waits: bool,
}

/// Has the body of an answer written to a file, all of it, and tells `growth` how far it is. A stream moves what there is room for; then
/// the body takes more.
pub(super) async fn write_body(
    shared: &Shared,
    reply: Reply,
    writing: &Writing,
    growth: &Arc<Growth>,
) -> Result<(), String> {
    let bytes = reply.told.body_bytes.ok_or("how long it is was not said")?;
    let connection = reply.connection.into_std().map_err(|error| error.to_string())?;
    let patience = Patience { source: shared.origin_limit, sink: shared.origin_limit };
    let mut first = reply.first;
    let mut written = 0;
    while written < bytes {
        let (room, end) = (writing.room(), Room::next(written, bytes));
        match shared.with_store(move |_| room.take(end)).await {
            Ok(true) => {}
            Ok(false) => return Err(format!("after {written} of {bytes} bytes: there is no room for more")),
            Err(error) => return Err(format!("after {written} of {bytes} bytes: {error}")),
        }
        let before = first.split_to(first.len().min((end - written) as usize));
        let source = connection.try_clone().and_then(|one| Object::stream("the origin", one.into()));
        let source = source.map_err(|error| error.to_string())?;
        let source = source.up_to(end - written - before.len() as u64).preceded_by(before);
        let sink = Object::growing("the cache", Arc::clone(&writing.file), Arc::clone(growth));
        let stream = StreamBuilder::default().input(source, Framing::Whole).output(sink).build();
        let (moved, result) = Flow::start(&shared.engine, stream).end(patience, None).await;
        written += moved;
        match result {
            Ok(()) if written == end => {}
            Ok(()) => return Err(format!("it ended after {written} of {bytes} bytes")),
            Err(words) => return Err(format!("after {written} of {bytes} bytes: {words}")),
        }
    }
    Ok(())
}
