//! A stream on the engine, as a task waits for it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use wirepath_streams::{
    Engine, Framing, Growth, Object, RunningStream, Stream, StreamBuilder, StreamError, StreamOptions,
};

use super::origin::Reply;

/// Runs a stream to its end, and stops it when it has moved nothing for `stall`, or up to twice as long. Answers how many bytes left,
/// and why they are not all, if they are not.
pub(super) async fn run(engine: &Engine, stream: Stream, stall: Duration) -> (u64, Result<(), String>) {
    let (tell, told) = oneshot::channel();
    // Nobody listens only if this was dropped, which stops the stream.
    let on_end = Box::new(move |end| drop(tell.send(end)));
    let running =
        engine.start_stream(stream, StreamOptions { on_end: Some(on_end), ..StreamOptions::default() });
    tokio::pin!(told);
    let mut moved = 0;
    let mut has_stalled = false;
    loop {
        match timeout(stall, &mut told).await {
            Ok(Ok(end)) => {
                let words = |error: StreamError| match has_stalled {
                    true => format!("nothing moved for at least {}", humantime::format_duration(stall)),
                    false => error.to_string(),
                };
                return (end.status.bytes_out, end.result.map_err(words));
            }
            Ok(Err(_)) => return (moved, Err("the engine has ended".to_owned())),
            Err(_) => {
                let before = std::mem::replace(&mut moved, bytes_moved(&running).await);
                if moved == before {
                    has_stalled = true;
                    running.stop();
                }
            }
        }
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
    match run(engine, stream, stall).await {
        (written, Ok(())) if written == bytes => Ok(()),
        (written, Ok(())) => Err(format!("it ended after {written} of {bytes} bytes")),
        (written, Err(words)) => Err(format!("after {written} of {bytes} bytes: {words}")),
    }
}

/// In and out.
async fn bytes_moved(running: &RunningStream) -> u64 {
    let (tell, told) = oneshot::channel();
    running.with(move |stream| {
        let status = stream.status();
        // Nobody listens only if the stream is not wanted any more.
        _ = tell.send(status.bytes_in + status.bytes_out);
    });
    told.await.unwrap_or(0)
}
