//! A stream on the engine, as a task waits for it.

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
    response: watch::Receiver<Option<StreamEnd>>,
}

/// How many bytes left, and why they are not all, if they are not.
pub(super) type Moved = (u64, Result<(), FlowError>);

/// Why a stream ended early.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum FlowError {
    /// It was stopped: who was to send something sent nothing for too long.
    #[error("nothing came for at least {}", format_duration(*.0))]
    Silent(Duration),
    /// It was stopped: who was to take what waited took nothing for too long.
    #[error("nothing was taken for at least {}", format_duration(*.0))]
    Stuck(Duration),
    /// It failed.
    #[error(transparent)]
    Failed(StreamError),
    /// Its thread is gone.
    #[error("the engine has ended")]
    EngineEnded,
}

impl Patience {
    /// Nobody is hurried.
    pub(super) const ENDLESS: Patience = Patience { source: Duration::MAX, sink: Duration::MAX };

    /// What is too long for the one that is waited for: who is to take something, if something `waits`, else
    /// who is to send.
    fn exceeded(self, waits: bool, still: Duration) -> Option<FlowError> {
        match waits {
            true => (still >= self.sink).then_some(FlowError::Stuck(self.sink)),
            false => (still >= self.source).then_some(FlowError::Silent(self.source)),
        }
    }
}

impl FlowError {
    /// Why a stream ended: that it was stopped says less than why, and anything else says more.
    fn of(error: StreamError, why_stopped: Option<FlowError>) -> FlowError {
        match (error, why_stopped) {
            (StreamError::Stopped, Some(why)) => why,
            (error, _) => FlowError::Failed(error),
        }
    }
}

impl Flow {
    pub(super) fn start(engine: &Engine, stream: Stream) -> Flow {
        let (tell, response) = watch::channel(None);
        let on_end = Box::new(move |end| drop(tell.send_replace(Some(end))));
        let options = StreamOptions { on_end: Some(on_end), ..StreamOptions::default() };
        Flow { running: stream.start(engine, options), response }
    }

    /// What it moved so far.
    pub(super) fn progress(&self) -> &Arc<StreamProgress> {
        self.running.progress()
    }

    /// Has it end.
    pub(super) fn stop(&self) {
        self.running.stop();
    }

    /// Its end, if that has come.
    pub(super) fn ended(&self) -> Option<StreamEnd> {
        self.response.borrow().clone()
    }

    /// Waits for its end. Stops it when one of its ends has paused for longer than it may, at the next look,
    /// unless the one `beside` it moves.
    pub(super) async fn end(&self, patience: Patience, beside: Option<&StreamProgress>) -> Moved {
        let pause = (patience.source.min(patience.sink) / STALL_SAMPLES).max(Duration::from_millis(1));
        let mut response = self.response.clone();
        let mut stall_detector = StallDetector::default();
        let mut why_stopped = None;
        loop {
            let end = async { response.wait_for(Option::is_some).await.ok().and_then(|end| end.clone()) };
            match timeout(pause, end).await {
                Ok(Some(StreamEnd { status, result })) => {
                    return (status.bytes_out, result.map_err(|error| FlowError::of(error, why_stopped)));
                }
                Ok(None) => return (self.progress().bytes_out(), Err(FlowError::EngineEnded)),
                Err(_) => {
                    let Some(state) = self.state().await else { continue }; // its end is there
                    let others = beside.map_or(0, |other| other.bytes_in() + other.bytes_out());
                    let signs = (state.bytes, state.on_its_way, others);
                    let still = Duration::from_micros(stall_detector.sample(signs, now_us()));
                    if let Some(why) = patience.exceeded(state.waits, still) {
                        why_stopped = Some(why);
                        self.stop();
                    }
                }
            }
        }
    }

    /// How far it is, as its engine thread knows between two turns; None if it is over.
    pub(super) async fn state(&self) -> Option<State> {
        let (tell, response) = oneshot::channel();
        self.running.with(move |stream| {
            let status = stream.status();
            let bytes = status.bytes_in + status.bytes_out;
            let waits =
                status.bytes_pending > 0 || status.outputs.iter().any(|output| output.waiting_bytes > 0);
            let on_its_way = stream.unacknowledged();
            // Nobody listens only if that is not wanted any more.
            _ = tell.send(State { bytes, bytes_out: status.bytes_out, on_its_way, waits });
        });
        response.await.ok()
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
    /// True if something waits for its output.
    waits: bool,
}

/// Has the body of an answer written to a file, all of it, and tells `growth` how far it is. A stream moves
/// what there is room for; then the body takes more.
pub(super) async fn write_body(
    shared: &Shared,
    reply: Reply,
    writing: &Writing,
    growth: &Arc<WriteProgress>,
) -> Result<(), String> {
    let bytes = reply.response.body_bytes.ok_or("how long it is was not said")?;
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
        let sink = Object::written("the cache", Arc::clone(&writing.file), Arc::clone(growth));
        let stream = StreamBuilder::default().input(source, Framing::Whole).output(sink).build();
        let (moved, result) = Flow::start(&shared.engine, stream).end(patience, None).await;
        written += moved;
        match result {
            Ok(()) if written == end => {}
            Ok(()) => return Err(format!("it ended after {written} of {bytes} bytes")),
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
        let why = || Some(FlowError::Silent(Duration::from_secs(1)));
        let stopped = FlowError::of(StreamError::Stopped, why()).to_string();
        assert_eq!(stopped, "nothing came for at least 1s");
        let error = StreamError::NoOutput("the client: sendmsg".to_owned());
        assert_eq!(FlowError::of(error.clone(), why()).to_string(), error.to_string());
    }

    #[test]
    fn whoever_is_waited_for_has_the_patience_that_is_his() {
        let patience = Patience { source: Duration::from_secs(1), sink: Duration::from_secs(3) };
        let still = Duration::from_secs(2);
        assert!(matches!(patience.exceeded(false, still), Some(FlowError::Silent(_))));
        assert!(patience.exceeded(true, still).is_none());
        assert!(matches!(patience.exceeded(true, 2 * still), Some(FlowError::Stuck(_))));
    }
}
