//! A stream on the engine, as a task waits for it.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use wirepath_streams::{Engine, RunningStream, Stream, StreamError, StreamOptions};

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
                    true => format!("nothing moved for {} s", stall.as_secs()),
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
