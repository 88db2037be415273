//! A stream as a task of the engine, and its handle.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::epoll::EventFlags;
use wirepath_engine::{
    BlockingPool, Context, Cost, Engine, Event, Handle, Job, Placement, Rate, Task, catch_panic, now_us,
};

use crate::error::StreamError;
use crate::events::{EventSlot, StreamEvents};
use crate::port::Port;
use crate::progress::StreamProgress;
use crate::storage::Stored;
use crate::stream::{Acted, Pace, Stream, StreamStatus};

/// Time until storage jobs are offered again after the pool had no room, in microseconds.
const RETRY_US: u64 = 1000;

/// Options of a stream on an engine.
#[derive(Default)]
pub struct StreamOptions {
    /// Engine thread, class and rate. The rate limits the bytes that the stream reads.
    pub placement: Placement,
    /// Under [`Policy::Deadline`](wirepath_engine::Policy::Deadline): time from ready to the end of the turn,
    /// in microseconds. Among ready streams, the stream with the earliest deadline has the next turn; streams
    /// without a deadline come last.
    pub deadline_us: Option<u64>,
    /// Called once, after the stream has ended; must not block. On the engine thread, unless that panicked.
    pub on_end: Option<Box<dyn FnOnce(StreamEnd) + Send>>,
}

impl StreamOptions {
    /// Options with the rate and deadline of the stream: those of the engine from which it was
    /// [taken back](RunningStream::take_back), or those that [`Stream::set_option`] has set since then or
    /// before the start. [`Stream::start`] with other options replaces them.
    pub fn with_pace_of(stream: &Stream) -> StreamOptions {
        let Pace { rate, deadline_us } = stream.pace;
        StreamOptions { placement: Placement { rate, ..Placement::default() }, deadline_us, on_end: None }
    }
}

/// End of a stream.
#[derive(Clone, Debug)]
pub struct StreamEnd {
    /// The error that ended the stream, if it did not end well.
    pub result: Result<(), StreamError>,
    /// Last status of the stream.
    pub status: StreamStatus,
}

/// Handle to a stream on an engine thread. Dropping the handle stops the stream.
pub struct RunningStream {
    task: Handle<StreamTask>,
    ending: Arc<Ending>,
    progress: Arc<StreamProgress>,
    events: EventSlot,
}

/// End of a stream, for threads that wait for it.
#[derive(Default)]
struct Ending {
    end: Mutex<Option<StreamEnd>>,
    has_ended: Condvar,
}

struct StreamTask {
    stream: Box<Stream>,
    /// Storage jobs for which the pool had no room yet.
    jobs: VecDeque<Job>,
    /// Receiver of the stream after [`RunningStream::take_back`], when none of its storage jobs runs any
    /// more.
    taker: Option<Sender<Box<Stream>>>,
    /// Result of an ended stream that waits for storage jobs: the number of written bytes is known only after
    /// them.
    result: Option<Result<(), StreamError>>,
    progress: Arc<StreamProgress>,
    end_report: EndReport,
}

/// Report of the end of a stream. Dropped without an end, as when the engine thread panics, it reports an error: threads
/// must not wait for the end for ever.
struct EndReport {
    ending: Arc<Ending>,
    events: EventSlot,
    on_end: Option<Box<dyn FnOnce(StreamEnd) + Send>>,
    /// True once the end was published, or the stream was taken back.
    is_done: bool,
}

impl Stream {
    /// Starts the stream on an engine (KStreams' `startstream`).
    pub fn start(mut self, engine: &Engine, options: StreamOptions) -> RunningStream {
        let StreamOptions { placement, deadline_us, on_end } = options;
        self.pace = Pace { rate: placement.rate, deadline_us };
        let (ending, progress) = (Arc::<Ending>::default(), Arc::new(StreamProgress::new()));
        let events = self.event_slot().clone();
        let task = StreamTask {
            stream: Box::new(self),
            jobs: VecDeque::new(),
            taker: None,
            result: None,
            progress: Arc::clone(&progress),
            end_report: EndReport {
                ending: Arc::clone(&ending),
                events: events.clone(),
                on_end,
                is_done: false,
            },
        };
        RunningStream { task: engine.spawn(Box::new(task), placement), ending, progress, events }
    }
}

impl RunningStream {
    /// Stops the stream (`stopstream`). Bytes that were read and have not left are lost and counted in the
    /// status that [`RunningStream::wait`] returns with [`StreamError::Stopped`]. To lose nothing,
    /// [take the stream back](RunningStream::take_back).
    pub fn stop(&self) {
        self.task.stop();
    }

    /// Takes the stream off its engine thread between two turns, with all bytes that it has read and not
    /// sent. Nothing is lost: the stream continues when it is [started](Stream::start) again, on any engine,
    /// or [run](Stream::run). Waits for storage jobs. [`StreamOptions::on_end`] is not called.
    ///
    /// # Errors
    /// The end of the stream, if the stream has ended.
    pub fn take_back(self) -> Result<Stream, Box<StreamEnd>> {
        let (sender, receiver) = channel();
        self.task.with(move |task, context| {
            task.taker = Some(sender);
            task.give_back_when_idle(context);
        });
        receiver.recv().map(|stream| *stream).map_err(|_| Box::new(self.wait()))
    }

    /// Waits until the stream has ended (`waitstream`).
    pub fn wait(&self) -> StreamEnd {
        let mut end = self.ending.end.lock();
        self.ending.has_ended.wait_while(&mut end, |end| end.is_none());
        end.clone().expect("the end was waited for")
    }

    /// Waits until the stream has ended, but at most `limit`.
    pub fn wait_for(&self, limit: Duration) -> Option<StreamEnd> {
        let mut end = self.ending.end.lock();
        self.ending.has_ended.wait_while_for(&mut end, |end| end.is_none(), limit);
        end.clone()
    }

    /// Returns whether the stream has ended.
    pub fn has_ended(&self) -> bool {
        self.ending.end.lock().is_some()
    }

    /// Descriptor that is readable when the stream has an event to report or has ended (KStreams' poll), for
    /// an event loop of the caller. The events are those from now on; to get all events, call
    /// [`Stream::events`] before the start.
    ///
    /// # Errors
    /// Failure of `eventfd`.
    pub fn events(&self) -> io::Result<StreamEvents> {
        let events = self.events.open()?;
        if self.has_ended() {
            self.events.end(); // at its end, the engine thread may have found no queue
        }
        Ok(events)
    }

    /// Progress of the stream; reading it costs the engine thread nothing. Stays valid after the handle is
    /// dropped.
    pub fn progress(&self) -> &Arc<StreamProgress> {
        &self.progress
    }

    /// Current status. Waits for the engine thread.
    pub fn status(&self) -> StreamStatus {
        let (sender, receiver) = channel();
        // A send fails only if the caller is gone and needs no status.
        self.with(move |stream| drop(sender.send(stream.status())));
        receiver.recv().unwrap_or_else(|_| self.wait().status)
    }

    /// Runs `act` on the engine thread between two turns of the stream, for example to attach an input. `act`
    /// must not block. It is not called if the stream has ended.
    pub fn with(&self, act: impl FnOnce(&mut Stream) + Send + 'static) {
        self.task.with(move |task, context| {
            let before = task.stream.pace.rate;
            match catch_panic(|| act(&mut task.stream)) {
                Ok(()) => {
                    let rate = task.stream.pace.rate;
                    if rate != before {
                        context.set_rate(rate, now_us());
                    }
                    task.request_turn(context);
                }
                Err(message) => task.end_with(Err(StreamError::Panicked(message)), context),
            }
        });
    }

    /// Limits the bytes that the stream may read, from now on (`setstreamoption`). Of the bytes read before,
    /// at most the new burst counts against the new rate.
    pub fn set_rate(&self, rate: Option<Rate>) {
        self.with(move |stream| stream.pace.rate = rate);
    }
}

impl Drop for RunningStream {
    fn drop(&mut self) {
        // A stop message to an ended stream would only wake its thread.
        if !self.has_ended() {
            self.stop();
        }
    }
}

impl Task for StreamTask {
    fn start(&mut self, context: &mut Context<'_>) {
        self.stream.set_watcher(context.watcher());
        self.request_turn(context);
    }

    fn fire(&mut self, context: &mut Context<'_>) {
        self.submit_storage(context);
        self.request_turn(context);
    }

    fn ready(&mut self, event: Event, context: &mut Context<'_>) {
        let port = Port::of_token(event.token);
        self.stream.note_ready(port);
        if event.flags.contains(EventFlags::PRI) {
            self.stream.note_urgent(port);
        }
        if event.flags.contains(EventFlags::ERR) {
            self.stream.note_broken(port);
        }
        self.request_turn(context);
    }

    /// Wakes the input with this port: more of its file was written.
    fn wake(&mut self, token: u64, context: &mut Context<'_>) {
        self.stream.note_ready(Port(token));
        self.request_turn(context);
    }

    fn turn(&mut self, allowance: u64, context: &mut Context<'_>) -> Cost {
        if self.taker.is_some() || self.result.is_some() {
            return Cost::default();
        }
        let (read_before, _) = self.stream.moved_bytes();
        let (acted, moved) = self.stream.act(allowance, now_us());
        let cost = Cost { shared: moved, rated: self.stream.moved_bytes().0 - read_before };
        let now_us = now_us();
        self.note_progress(now_us);
        // At the end they are dropped together with the task: waking the pool's thread costs a tenth of the
        // processor time of a short download.
        if !matches!(acted, Acted::Ended(_)) {
            let drops = self.stream.take_deferred_drops();
            if !drops.is_empty() {
                context.pool().discard(drops);
            }
        }
        // Many streams are short and end in their first turn: those need no events.
        let acted = match acted {
            Acted::Ended(_) => acted,
            _ => self.stream.watch().map_or_else(|error| Acted::Ended(Err(error)), |()| acted),
        };
        match acted {
            Acted::More | Acted::Wait => {
                if let Some(look_again_us) = self.stream.look_again_us() {
                    context.set_timer(now_us + look_again_us);
                }
                self.submit_storage(context);
                if matches!(acted, Acted::More) {
                    self.request_turn(context);
                }
            }
            Acted::Deliver => context.set_timer(now_us + self.stream.stall_sample_us()),
            Acted::Ended(result) => self.end_with(result, context),
        }
        cost
    }

    fn note_processor_time(&mut self, used_ns: u64) {
        self.stream.note_processor_ns(used_ns);
    }

    fn stop(&mut self, context: &mut Context<'_>) {
        self.end_with(Err(StreamError::Stopped), context);
    }

    fn end(mut self: Box<Self>, pool: &BlockingPool) {
        self.note_progress(now_us());
        if let Some(taker) = self.taker.take_if(|_| !self.stream.waits_for_storage()) {
            self.stream.unwatch();
            self.end_report.is_done = true;
            // If the receiver is gone, the stream is dropped.
            drop(taker.send(self.stream));
            return;
        }
        self.conclude();
        // Peers see the end at once; closing files and dropping handlers may take long.
        self.stream.close_connections();
        pool.discard(self);
    }
}

impl StreamTask {
    /// Requests a turn. Work left after a turn is due as if it had just arrived, so that a stream with much
    /// work does not delay others.
    fn request_turn(&self, context: &mut Context<'_>) {
        match self.stream.pace.deadline_us {
            Some(deadline_us) => context.request_turn_by(now_us().saturating_add(deadline_us)),
            None => context.request_turn(),
        }
    }

    fn note_progress(&self, now_us: u64) {
        let (bytes_in, bytes_out) = self.stream.moved_bytes();
        self.progress.note(bytes_in, bytes_out, now_us);
    }

    /// Submits storage jobs to the pool.
    fn submit_storage(&mut self, context: &mut Context<'_>) {
        let task = context.handle::<StreamTask>();
        let jobs = self.stream.take_storage().map(|storage| {
            let task = task.clone();
            Box::new(move || {
                let stored = storage.run();
                task.with(move |task, context| task.stored(stored, context));
            }) as Job
        });
        self.jobs.extend(jobs);
        while let Some(job) = self.jobs.pop_front() {
            if let Err(job) = context.pool().offer(job) {
                self.jobs.push_front(job);
                return context.set_timer(now_us() + RETRY_US);
            }
        }
    }

    fn stored(&mut self, stored: Stored, context: &mut Context<'_>) {
        let stored = self.stream.stored(stored, now_us());
        match (self.result.take(), stored) {
            (Some(result), _) => self.end_with(result, context),
            (None, Err(error)) => self.end_with(Err(error), context),
            (None, Ok(())) if self.taker.is_some() => self.give_back_when_idle(context),
            (None, Ok(())) => self.request_turn(context),
        }
    }

    /// Returns the stream to the caller, unless its storage jobs still run.
    fn give_back_when_idle(&mut self, context: &mut Context<'_>) {
        if !self.stream.waits_for_storage() {
            context.end();
        }
    }

    /// Ends the stream after its storage jobs have ended: only then is the number of written bytes known.
    fn end_with(&mut self, result: Result<(), StreamError>, context: &mut Context<'_>) {
        self.submit_storage(context);
        self.result.get_or_insert(result);
        if !self.stream.is_writing() {
            self.taker = None;
            context.end();
        }
    }

    /// Publishes the end of the stream to waiting threads.
    fn conclude(&mut self) {
        let result = self.result.take().unwrap_or(Err(StreamError::Stopped));
        // A handler that panicked may panic again in its report.
        self.stream.give_back();
        let status = catch_panic(|| self.stream.status()).unwrap_or_default();
        self.end_report.publish(StreamEnd { result, status });
    }
}

impl EndReport {
    fn publish(&mut self, end: StreamEnd) {
        self.is_done = true;
        *self.ending.end.lock() = Some(end.clone());
        self.ending.has_ended.notify_all();
        self.events.end();
        if let Some(on_end) = self.on_end.take()
            && let Err(message) = catch_panic(|| on_end(end))
        {
            tracing::error!(message, "a callback for the end of a stream panicked");
        }
    }
}

impl Drop for EndReport {
    fn drop(&mut self) {
        if !self.is_done {
            let (result, status) = (Err(StreamError::ThreadPanicked), StreamStatus::default());
            self.publish(StreamEnd { result, status });
        }
    }
}
