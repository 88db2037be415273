//! Streams on an engine thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;

use super::{Command, Task, Work, Worker};
use crate::StreamError;
use crate::blocking::Job;
use crate::clock::now_us;
use crate::panics::caught;
use crate::playback::RETRY_US;
use crate::running::StreamTask;
use crate::schedule::{Cost, Rate};
use crate::stream::watch::Watch;
use crate::stream::{Acted, LOOK_AGAIN_US, Stored, Stream};

impl Worker {
    pub(super) fn add_stream(&mut self, id: u64, task: Box<StreamTask>) {
        let (class, rate) = (task.class, task.rate);
        let key = self.add(id, Work::Stream(task));
        self.scheduler.add(key, class, rate);
        let watch = Watch::new(Arc::clone(&self.epoll), key);
        let Some(task) = self.stream(key) else { return };
        match task.stream.watch(watch) {
            Ok(()) => self.ready_stream(key),
            Err(error) => self.end_stream(key, Err(error)),
        }
    }

    /// A stream has something to do. What is left after a turn is due as if it had come then: who has much does not keep others
    /// waiting by it.
    pub(super) fn ready_stream(&mut self, key: usize) {
        match self.stream(key).map(|task| task.deadline_us) {
            Some(Some(deadline_us)) => self.scheduler.ready_by(key, now_us().saturating_add(deadline_us)),
            Some(None) => self.scheduler.ready(key),
            None => {}
        }
    }

    /// Gives a stream a turn.
    pub(super) fn act_stream(&mut self, key: usize, allowance: u64) {
        let begun_ns = self.processor_ns();
        let Some(task) = self.stream(key) else { return };
        if task.wanted.is_some() || task.result.is_some() {
            return self.scheduler.acted(key, 0, false, now_us());
        }
        let (before, _) = task.stream.moved_bytes();
        let (acted, moved) = task.stream.act(allowance, now_us());
        let rated = task.stream.moved_bytes().0 - before;
        let remains = task.stream.take_remains();
        let now_us = now_us();
        task.note_progress(now_us);
        if !remains.is_empty() {
            self.readers.discard(remains);
        }
        self.sending.counters.stream_octets.add(moved);
        let shared = self.charge(key, begun_ns).unwrap_or(moved);
        self.scheduler.acted(key, Cost { shared, rated }, false, now_us);
        if matches!(acted, Acted::More) {
            self.ready_stream(key);
        }
        match acted {
            Acted::More | Acted::Wait => {
                if self.stream(key).is_some_and(|task| task.stream.looks_again()) {
                    self.wheel.set(key, now_us + LOOK_AGAIN_US);
                }
                self.submit_storage(key);
            }
            Acted::Deliver => self.wheel.set(key, now_us + LOOK_AGAIN_US),
            Acted::Ended(result) => self.end_stream(key, result),
        }
    }

    /// Has a stream account for what its turn took, where processor time is shared; answers that, in nanoseconds.
    fn charge(&mut self, key: usize, begun_ns: Option<u64>) -> Option<u64> {
        let used_ns = self.processor_ns_since(begun_ns)?;
        if let Some(task) = self.stream(key) {
            task.stream.note_processor_ns(used_ns);
        }
        Some(used_ns)
    }

    /// Has others do what may block.
    pub(super) fn submit_storage(&mut self, key: usize) {
        let Some(Task { id, work: Work::Stream(task) }) = self.tasks.get_mut(key) else { return };
        let id = *id;
        let jobs = task.stream.take_storage().map(|storage| {
            let mailbox = Arc::clone(&self.mailbox);
            let job = move || mailbox.send(Command::Stored { id, stored: storage.run() });
            Box::new(job) as Job
        });
        task.jobs.extend(jobs);
        while let Some(job) = task.jobs.pop_front() {
            if let Err(job) = self.readers.offer(job) {
                // They have too much to do.
                task.jobs.push_front(job);
                return self.wheel.set(key, now_us() + RETRY_US);
            }
        }
    }

    /// What came of something that might have blocked.
    pub(super) fn stored(&mut self, id: u64, stored: Stored) {
        let Some(key) = self.keys.get(&id).copied() else { return };
        let Some(task) = self.stream(key) else { return };
        let result = task.stream.stored(stored);
        match task.result.take() {
            Some(result) => self.end_stream(key, result),
            None => match result {
                Ok(()) if task.wanted.is_some() => self.give_back(key),
                Ok(()) => self.ready_stream(key),
                Err(error) => self.end_stream(key, Err(error)),
            },
        }
    }

    /// Somebody wants a stream back: it has no more turns.
    pub(super) fn take_back(&mut self, id: u64, tell: Sender<Box<Stream>>) {
        let Some(key) = self.keys.get(&id).copied() else { return };
        let Some(task) = self.stream(key) else { return };
        task.wanted = Some(tell);
        self.give_back(key);
    }

    /// Gives a stream back, if it is wanted and nothing of it is elsewhere.
    fn give_back(&mut self, key: usize) {
        if self.stream(key).is_none_or(|task| task.wanted.is_none() || task.stream.waits_for_storage()) {
            return;
        }
        self.sending.counters.streams.fetch_sub(1, Relaxed);
        if let Work::Stream(task) = self.forget(key) {
            task.note_progress(now_us());
            task.give_back();
        }
    }

    /// Does something with a stream between two of its turns.
    pub(super) fn with_stream(&mut self, id: u64, act: Box<dyn FnOnce(&mut Stream) + Send>) {
        let Some(key) = self.keys.get(&id).copied() else { return };
        let Some(task) = self.stream(key) else { return };
        match caught(|| act(&mut task.stream)) {
            Ok(()) => self.ready_stream(key),
            Err(words) => self.end_stream(key, Err(StreamError::Panicked(words))),
        }
    }

    pub(super) fn set_rate(&mut self, id: u64, rate: Option<Rate>) {
        let Some(key) = self.keys.get(&id).copied() else { return };
        self.scheduler.set_rate(key, rate, now_us());
    }

    /// Ends a stream, when what is being written for it is written, or could not be: else nobody would know how much of it was.
    pub(super) fn end_stream(&mut self, key: usize, result: Result<(), StreamError>) {
        self.submit_storage(key);
        let Some(task) = self.stream(key) else { return };
        if task.stream.is_writing() {
            task.result.get_or_insert(result);
            return;
        }
        self.conclude_stream(key, result);
    }

    /// Ends a stream as it is.
    pub(super) fn conclude_stream(&mut self, key: usize, result: Result<(), StreamError>) {
        if self.stream(key).is_none() {
            return;
        }
        // Whoever hears of the end finds it counted.
        self.sending.counters.streams.fetch_sub(1, Relaxed);
        if let Some(task) = self.stream(key) {
            task.end(result);
        }
        if let Work::Stream(mut task) = self.forget(key) {
            // Whoever is connected sees the end at once; files and handlers may take their time.
            task.stream.close_connections();
            self.readers.discard(task);
        }
    }

    pub(super) fn stream(&mut self, key: usize) -> Option<&mut StreamTask> {
        match &mut self.tasks.get_mut(key)?.work {
            Work::Stream(task) => Some(task),
            Work::Playback(_) | Work::Download(_) => None,
        }
    }
}
