//! A stream on the engine, as a task waits for it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use wirepath_streams::{
    Engine, Framing, Growth, Object, RunningStream, Stream, StreamBuilder, StreamEnd, StreamError,
    StreamOptions, StreamProgress, now_us,
};

use super::origin::Reply;

/// A running stream. It is stopped when this is dropped.
pub(super) struct Flow {
    running: RunningStream,
    told: oneshot::Receiver<StreamEnd>,
}

/// How many bytes left, and why they are not all, if they are not.
pub(super) type Moved = (u64, Result<(), String>);

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

    /// Bytes that left, as its engine thread knows it between two turns; None if it is over.
    pub(super) async fn bytes_out(&self) -> Option<u64> {
        let (tell, told) = oneshot::channel();
        self.running.with(move |stream| {
            // Nobody listens only if that is not wanted any more.
            _ = tell.send(stream.status().bytes_out);
        });
        told.await.ok()
    }

    /// Has it end.
    pub(super) fn stop(&self) {
        self.running.stop();
    }

    /// Waits for its end, once, and stops it when neither it nor the one `beside` it has moved anything for `stall`.
    pub(super) async fn end(&mut self, stall: Duration, beside: Option<&StreamProgress>) -> Moved {
        let (mut left, mut has_stalled) = (stall, false);
        loop {
            match timeout(left, &mut self.told).await {
                Ok(Ok(end)) => {
                    let words = |error: StreamError| match has_stalled {
                        true => format!("nothing moved for at least {}", humantime::format_duration(stall)),
                        false => error.to_string(),
                    };
                    return (end.status.bytes_out, end.result.map_err(words));
                }
                Ok(Err(_)) => return (self.progress().bytes_out(), Err("the engine has ended".to_owned())),
                Err(_) => left = stall.saturating_sub(self.silence(beside)),
            }
            if left.is_zero() {
                (left, has_stalled) = (stall, true);
                self.stop();
            }
        }
    }

    /// For how long neither has moved anything.
    fn silence(&self, beside: Option<&StreamProgress>) -> Duration {
        let last_us = self.progress().moved_us().max(beside.map_or(0, StreamProgress::moved_us));
        Duration::from_micros(now_us().saturating_sub(last_us))
    }
}

/// Has the body of an answer written to a file, all of it, and tells `growth` how far it is.
pub(super) async fn write_body(
    engine: &Engine,
    reply: Reply,
    file: &Arc<File>,
    growth: &Arc<Growth>,
    stall: Duration,
) -> Result<(), String> {
    let bytes = reply.told.body_bytes.ok_or("how long it is was not said")?;
    if bytes == 0 {
        return Ok(());
    }
    let rest = bytes - reply.first.len() as u64;
    let connection: OwnedFd = reply.connection.into_std().map_err(|error| error.to_string())?.into();
    let source = Object::stream("the origin", connection).map_err(|error| error.to_string())?;
    let source = source.up_to(rest).preceded_by(reply.first);
    let sink = Object::growing("the cache", Arc::clone(file), Arc::clone(growth));
    let stream = StreamBuilder::default().input(source, Framing::Whole).output(sink).build();
    match Flow::start(engine, stream).end(stall, None).await {
        (written, Ok(())) if written == bytes => Ok(()),
        (written, Ok(())) => Err(format!("it ended after {written} of {bytes} bytes")),
        (written, Err(words)) => Err(format!("after {written} of {bytes} bytes: {words}")),
    }
}
