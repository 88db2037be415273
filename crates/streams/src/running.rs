//! A stream on an engine thread, and the handle to it.

use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::blocking::Job;
use crate::clock::now_us;
use crate::engine::Mailbox;
use crate::panics::caught;
use crate::progress::StreamProgress;
use crate::schedule::Rate;
use crate::stream::{Stream, StreamError, StreamStatus};
use crate::worker::Command;

/// How a stream is to be run.
#[derive(Default)]
pub struct StreamOptions {
    /// Its class, by the place in [`Sharing::classes`](crate::Sharing::classes); beyond its end, the last.
    pub class: usize,
    /// The engine thread that is to run it, by its number; beyond their end they are counted from the first again. If none is said,
    /// the one that has least to do, or where a rate of its class is to hold, the one that has all of the class.
    pub thread: Option<usize>,
    /// What it may read, in bytes.
    pub rate: Option<Rate>,
    /// Under [`Policy::Deadline`](crate::Policy::Deadline): what it has to do should be done so long after it became ready. Of those
    /// that are ready, the one that should be done first has its turn. None comes after all that have one.
    pub deadline_us: Option<u64>,
    /// Called once, on the engine thread, when it is over; it must not block.
    pub on_end: Option<Box<dyn FnOnce(StreamEnd) + Send>>,
}

/// How a stream ended.
#[derive(Clone, Debug)]
pub struct StreamEnd {
    /// Why, if it did not end well.
    pub result: Result<(), StreamError>,
    /// What it had done.
    pub status: StreamStatus,
}

/// A stream on an engine thread. It is stopped when this is dropped.
pub struct RunningStream {
    id: u64,
    mailbox: Arc<Mailbox>,
    ending: Arc<Ending>,
    progress: Arc<StreamProgress>,
}

/// Where a stream's end is found.
#[derive(Default)]
pub(crate) struct Ending {
    end: Mutex<Option<StreamEnd>>,
    has_ended: Condvar,
}

/// A stream as its engine thread sees it.
pub(crate) struct StreamTask {
    pub(crate) stream: Stream,
    pub(crate) class: usize,
    pub(crate) rate: Option<Rate>,
    pub(crate) deadline_us: Option<u64>,
    /// What may block and others have no room for yet.
    pub(crate) jobs: VecDeque<Job>,
    /// Who wants it back, when nobody else has anything of it.
    pub(crate) wanted: Option<Sender<Box<Stream>>>,
    /// It is over, when what is being written for it is: how much that is will be known then.
    pub(crate) result: Option<Result<(), StreamError>>,
    on_end: Option<Box<dyn FnOnce(StreamEnd) + Send>>,
    ending: Arc<Ending>,
    progress: Arc<StreamProgress>,
}

impl RunningStream {
    /// The handle to what `task` runs.
    pub(crate) fn new(id: u64, mailbox: Arc<Mailbox>, task: &StreamTask) -> RunningStream {
        let (ending, progress) = (Arc::clone(&task.ending), Arc::clone(&task.progress));
        RunningStream { id, mailbox, ending, progress }
    }

    /// Ends it (`stopstream`). What was read and has not left is lost; how much that is, the status says that
    /// [`RunningStream::wait`] answers, with the error that it was stopped. To lose nothing, [take it back](RunningStream::take_back).
    pub fn stop(&self) {
        self.mailbox.send(Command::Stop { id: self.id });
    }

    /// Takes it off its engine thread between two turns, with all that it read and has not sent. Nothing is lost: it goes on where
    /// it was when it is [started](crate::Engine::start_stream) again, on any engine, or [run](Stream::run). Waits for what is being
    /// written to files. [`StreamOptions::on_end`] is not called.
    ///
    /// # Errors
    /// If it is over: how it ended.
    pub fn take_back(self) -> Result<Stream, Box<StreamEnd>> {
        let (tell, told) = channel();
        self.mailbox.send(Command::TakeBack { id: self.id, tell });
        told.recv().map(|stream| *stream).map_err(|_| Box::new(self.wait()))
    }

    /// Waits until it is over (`waitstream`).
    pub fn wait(&self) -> StreamEnd {
        let mut end = self.ending.lock();
        loop {
            if let Some(end) = &*end {
                return end.clone();
            }
            end = self.ending.has_ended.wait(end).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until it is over, at most so long.
    pub fn wait_for(&self, limit: Duration) -> Option<StreamEnd> {
        let end = self.ending.lock();
        let waited = self.ending.has_ended.wait_timeout_while(end, limit, |end| end.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Whether it is over.
    pub fn has_ended(&self) -> bool {
        self.ending.lock().is_some()
    }

    /// How much it moved and when it last did, to be read as often as one likes. Outlives the handle.
    pub fn progress(&self) -> &Arc<StreamProgress> {
        &self.progress
    }

    /// What it did so far. Waits for the engine thread.
    pub fn status(&self) -> StreamStatus {
        let (tell, told) = channel();
        // If nobody listens, nobody needs to know.
        self.with(move |stream| drop(tell.send(stream.status())));
        told.recv().unwrap_or_else(|_| self.wait().status)
    }

    /// Does something with the stream between two of its turns, such as attaching an input. It must not block. Not done if the stream
    /// is over.
    pub fn with(&self, act: impl FnOnce(&mut Stream) + Send + 'static) {
        self.mailbox.send(Command::WithStream { id: self.id, act: Box::new(act) });
    }

    /// What it may read, in bytes, from now on (`setstreamoption`); None is no limit of its own. Of what it has read, no more than the
    /// new burst counts against the new rate.
    pub fn set_rate(&self, rate: Option<Rate>) {
        self.mailbox.send(Command::SetRate { id: self.id, rate });
    }
}

impl Drop for RunningStream {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Ending {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<StreamEnd>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamTask {
    pub(crate) fn new(stream: Stream, options: StreamOptions) -> StreamTask {
        let StreamOptions { class, rate, deadline_us, on_end, thread: _ } = options;
        StreamTask {
            stream,
            class,
            rate,
            deadline_us,
            jobs: VecDeque::new(),
            wanted: None,
            result: None,
            on_end,
            ending: Arc::default(),
            progress: Arc::new(StreamProgress::new()),
        }
    }

    /// Has others see how far it came.
    pub(crate) fn note_progress(&self, now_us: u64) {
        let (bytes_in, bytes_out) = self.stream.moved_bytes();
        self.progress.note(bytes_in, bytes_out, now_us);
    }

    /// Gives the stream to whoever wants it.
    pub(crate) fn give_back(self) {
        let StreamTask { mut stream, wanted, .. } = self;
        stream.unwatch();
        if let Some(wanted) = wanted {
            // If nobody waits any more, nobody wants it.
            drop(wanted.send(Box::new(stream)));
        }
    }

    /// Tells whoever waits.
    pub(crate) fn end(&mut self, result: Result<(), StreamError>) {
        self.note_progress(now_us());
        // A handler that panicked may do so again when it is asked for its report.
        self.stream.give_back();
        let status = caught(|| self.stream.status()).unwrap_or_default();
        let end = StreamEnd { result, status };
        *self.ending.lock() = Some(end.clone());
        self.ending.has_ended.notify_all();
        if let Some(on_end) = self.on_end.take()
            && let Err(words) = caught(|| on_end(end))
        {
            tracing::error!(words, "a callback for the end of a stream panicked");
        }
    }
}
