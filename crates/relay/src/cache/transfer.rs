//! Engine streams that move bodies.

use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use wirepath_engine::{Engine, STALL_SAMPLES, StallDetector, now_us};
use wirepath_streams::{
    Framing, Object, RunningStream, Stream, StreamBuilder, StreamEnd, StreamError, StreamOptions,
    StreamProgress, WriteProgress,
};

use super::Shared;
use super::origin::Reply;
use super::store::{BodyWriter, Space};

/// Limits of pauses of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StallLimits {
    /// Time limit for a source that sends nothing.
    pub(super) source: Duration,
    /// Time limit for a sink that accepts none of the waiting bytes.
    pub(super) sink: Duration,
}

/// Running stream. Dropping a `Transfer` stops the stream.
pub(super) struct Transfer {
    running: RunningStream,
    end: watch::Receiver<Option<StreamEnd>>,
}

/// Number of bytes moved, and the error if the body is not complete.
pub(super) type TransferResult = (u64, Result<(), TransferError>);

/// Reason why a stream ended early.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum TransferError {
    /// The source sent nothing for too long.
    #[error("no data received for {}", format_duration(*.0))]
    SourceStalled(Duration),
    /// The sink accepted none of the waiting bytes for too long.
    #[error("peer accepted no data for {}", format_duration(*.0))]
    SinkStalled(Duration),
    /// The stream failed.
    #[error(transparent)]
    Failed(StreamError),
    /// The engine thread is gone.
    #[error("the engine has ended")]
    EngineEnded,
}

impl StallLimits {
    pub(super) const NONE: StallLimits = StallLimits { source: Duration::MAX, sink: Duration::MAX };

    /// Error of a pause that exceeds its limit: an error of the sink if bytes wait for it (`waits`), else of
    /// the source.
    fn exceeded(self, waits: bool, pause: Duration) -> Option<TransferError> {
        match waits {
            true => (pause >= self.sink).then_some(TransferError::SinkStalled(self.sink)),
            false => (pause >= self.source).then_some(TransferError::SourceStalled(self.source)),
        }
    }
}

impl TransferError {
    /// Error of a stream. For a stopped stream, this is the reason why it was stopped.
    fn of(error: StreamError, why_stopped: Option<TransferError>) -> TransferError {
        match (error, why_stopped) {
            (StreamError::Stopped, Some(why)) => why,
            (error, _) => TransferError::Failed(error),
        }
    }
}

impl Transfer {
    pub(super) fn start(engine: &Engine, stream: Stream) -> Transfer {
        let (sender, end) = watch::channel(None);
        let on_end = Box::new(move |end| drop(sender.send_replace(Some(end))));
        let options = StreamOptions { on_end: Some(on_end), ..StreamOptions::default() };
        Transfer { running: stream.start(engine, options), end }
    }

    pub(super) fn progress(&self) -> &Arc<StreamProgress> {
        self.running.progress()
    }

    pub(super) fn stop(&self) {
        self.running.stop();
    }

    /// End of the stream, if the stream has ended.
    pub(super) fn ended(&self) -> Option<StreamEnd> {
        self.end.borrow().clone()
    }

    /// Waits for the end of the stream. Stops the stream when a pause exceeds its limit, unless the stream
    /// `beside` it makes progress. Pauses are sampled.
    pub(super) async fn end(&self, limits: StallLimits, beside: Option<&StreamProgress>) -> TransferResult {
        let interval = (limits.source.min(limits.sink) / STALL_SAMPLES).max(Duration::from_millis(1));
        let mut end = self.end.clone();
        let mut stall_detector = StallDetector::default();
        let mut why_stopped = None;
        loop {
            let ended = async { end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone()) };
            match timeout(interval, ended).await {
                Ok(Some(StreamEnd { status, result })) => {
                    return (status.bytes_out, result.map_err(|error| TransferError::of(error, why_stopped)));
                }
                Ok(None) => return (self.progress().bytes_out(), Err(TransferError::EngineEnded)),
                Err(_) => {
                    let Some(state) = self.state().await else { continue }; // the stream has ended
                    let others = beside.map_or(0, |other| other.bytes_in() + other.bytes_out());
                    let progress = (state.bytes, state.unacknowledged, others);
                    let pause = Duration::from_micros(stall_detector.sample(progress, now_us()));
                    if let Some(why) = limits.exceeded(state.waits, pause) {
                        why_stopped = Some(why);
                        self.stop();
                    }
                }
            }
        }
    }

    /// State of the stream between two turns; None if the stream has ended.
    pub(super) async fn state(&self) -> Option<State> {
        let (sender, state) = oneshot::channel();
        self.running.with(move |stream| {
            let status = stream.status();
            let bytes = status.bytes_in + status.bytes_out;
            let waits =
                status.bytes_pending > 0 || status.outputs.iter().any(|output| output.waiting_bytes > 0);
            let unacknowledged = stream.unacknowledged();
            _ = sender.send(State { bytes, bytes_out: status.bytes_out, unacknowledged, waits });
        });
        state.await.ok()
    }
}

/// State of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// Sum of bytes in and out.
    bytes: u64,
    pub(super) bytes_out: u64,
    /// Bytes that the peer of the output has not acknowledged.
    unacknowledged: u64,
    /// True if bytes wait for the output.
    waits: bool,
}

/// Writes the body of a response to a file, and its current length to `progress`. Each stream moves as many
/// bytes as have reserved space.
pub(super) async fn write_body(
    shared: &Shared,
    reply: Reply,
    writing: &BodyWriter,
    progress: &Arc<WriteProgress>,
) -> Result<(), String> {
    let bytes = reply.response.body_bytes.ok_or("response without a length")?;
    let connection = reply.connection.into_std().map_err(|error| error.to_string())?;
    let limits = StallLimits { source: shared.origin_limit, sink: shared.origin_limit };
    let mut first = reply.first;
    let mut written = 0;
    while written < bytes {
        let (space, end) = (writing.space(), Space::next(written, bytes));
        match shared.with_store(move |_| space.take(end)).await {
            Ok(true) => {}
            Ok(false) => return Err(format!("after {written} of {bytes} bytes: no space left")),
            Err(error) => return Err(format!("after {written} of {bytes} bytes: {error}")),
        }
        let before = first.split_to(first.len().min((end - written) as usize));
        let source = connection.try_clone().and_then(|one| Object::stream("the origin", one.into()));
        let source = source.map_err(|error| error.to_string())?;
        let source = source.up_to(end - written - before.len() as u64).preceded_by(before);
        let sink = Object::written("the cache", Arc::clone(&writing.file), Arc::clone(progress));
        let stream = StreamBuilder::default().input(source, Framing::Whole).output(sink).build();
        let (moved, result) = Transfer::start(&shared.engine, stream).end(limits, None).await;
        written += moved;
        match result {
            Ok(()) if written == end => {}
            Ok(()) => return Err(format!("the body ended after {written} of {bytes} bytes")),
            Err(error) => return Err(format!("after {written} of {bytes} bytes: {error}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_it_was_stopped_hides_no_other_error() {
        let why = || Some(TransferError::SourceStalled(Duration::from_secs(1)));
        let stopped = TransferError::of(StreamError::Stopped, why()).to_string();
        assert_eq!(stopped, "no data received for 1s");
        let error = StreamError::NoOutput("the client: sendmsg".to_owned());
        assert_eq!(TransferError::of(error.clone(), why()).to_string(), error.to_string());
    }

    #[test]
    fn each_side_has_its_own_timeout() {
        let limits = StallLimits { source: Duration::from_secs(1), sink: Duration::from_secs(3) };
        let still = Duration::from_secs(2);
        assert!(matches!(limits.exceeded(false, still), Some(TransferError::SourceStalled(_))));
        assert!(limits.exceeded(true, still).is_none());
        assert!(matches!(limits.exceeded(true, 2 * still), Some(TransferError::SinkStalled(_))));
    }
}
