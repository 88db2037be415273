//! One engine thread: runs what is due, lets those act whose turn it is, then sleeps until something is ready.

mod commands;
mod downloads;
mod playbacks;
mod streams;

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use slab::Slab;
use wirepath_datapath::{RegisterError, RegistrationProgress, SendContext, SendError, Support, prefetch};

pub(crate) use commands::Command;

use crate::blocking::BlockingPool;
use crate::clock::{now_us, thread_time_ns};
use crate::counters::ThreadCounters;
use crate::download::{DownloadError, DownloadTask, Waiting};
use crate::engine::Mailbox;
use crate::playback::{PlayError, PlaybackTask};
use crate::running::StreamTask;
use crate::schedule::{Next, Scheduler};
use crate::slots::Slots;
use crate::stream::watch;
use crate::wheel::Wheel;
use crate::{EngineOptions, Sharing, StreamError};

/// What threads could not register, until somebody looks.
pub(crate) type HoldFailures = Arc<Mutex<Vec<RegisterError>>>;

/// What sending needs of its thread.
pub(crate) struct Sending {
    pub(crate) scratch: SendContext,
    pub(crate) counters: Arc<ThreadCounters>,
    pub(crate) support: Arc<Support>,
    pub(crate) slots: Slots,
}

/// One engine thread.
pub(crate) struct Worker {
    options: EngineOptions,
    mailbox: Arc<Mailbox>,
    readers: BlockingPool,
    sending: Sending,
    epoll: Arc<OwnedFd>,
    wheel: Wheel,
    tasks: Slab<Task>,
    /// Keys in `tasks` by the identity that commands carry.
    keys: HashMap<u64, usize>,
    /// Whose turn it is, of downloads and streams.
    scheduler: Scheduler,
    /// Whether classes share processor time: only then are turns measured, which takes two kernel calls each.
    shares_time: bool,
    /// Answers to trains that were queued: the playback's key, and what came of it.
    answers: Vec<(u64, Result<u32, SendError>)>,
    hold_failures: HoldFailures,
}

struct Task {
    id: u64,
    work: Work,
}

enum Work {
    Playback(Box<PlaybackTask>),
    Download(Box<DownloadTask>),
    Stream(Box<StreamTask>),
}

/// The epoll key of the mailbox; tasks have their own keys.
const MAILBOX: u64 = u64::MAX;

/// Tasks that are brought into the caches together: some 15 KiB.
const BATCH: usize = 32;

/// When to look again whether the network is done with memory that is to be let go of.
const TEND_AGAIN_US: u64 = 100_000;

/// What one turn moves at most, so that nobody waits long for a download or stream: about 50 microseconds' worth.
pub(crate) const TURN: u64 = 256 * 1024;

/// Turns between two looks at commands and events.
const TURNS: usize = 64;

/// Events taken from epoll at a time.
const EVENTS: usize = 256;

impl Worker {
    pub(crate) fn new(
        options: EngineOptions,
        mailbox: Arc<Mailbox>,
        counters: Arc<ThreadCounters>,
        support: Arc<Support>,
        readers: BlockingPool,
        hold_failures: HoldFailures,
    ) -> io::Result<Worker> {
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let shares_time = options.sharing.is_of_processor_time();
        let Sharing { policy, classes } = options.sharing.clone();
        let scheduler = Scheduler::new(policy, classes, TURN);
        epoll::add(&epoll, &mailbox.wake, epoll::EventData::new_u64(MAILBOX), epoll::EventFlags::IN)?;
        Ok(Worker {
            options,
            mailbox,
            readers,
            sending: Sending { scratch: SendContext::default(), counters, support, slots: Slots::default() },
            epoll,
            wheel: Wheel::new(now_us()),
            tasks: Slab::new(),
            keys: HashMap::new(),
            scheduler,
            shares_time,
            answers: Vec::new(),
            hold_failures,
        })
    }

    /// Runs until told to quit.
    pub(crate) fn run(mut self) {
        self.open_ring();
        let mut commands = Vec::new();
        loop {
            self.run_due();
            let next_turn_us = self.run_turns();
            let tending = self.tend();
            if self.sleep(tending, next_turn_us) {
                self.mailbox.take(&mut commands);
                for command in commands.drain(..) {
                    if matches!(command, Command::Quit) {
                        return self.quit();
                    }
                    self.obey(command);
                }
            }
        }
    }

    /// A ring belongs to the thread that opened it.
    fn open_ring(&mut self) {
        if !self.options.ring {
            return;
        }
        match self.sending.scratch.open_ring() {
            Ok(()) => self.answers.reserve(self.sending.scratch.room()),
            Err(error) => {
                tracing::warn!(%error, "an engine thread has no ring; its trains leave by other paths")
            }
        }
    }

    /// Does what is due now; what becomes due meanwhile has to wait until commands and events were looked at, or a thread with
    /// too much to do would never hear that it may stop.
    ///
    /// Tasks rest between their trains and have left the processor's caches by then, so those of a batch are asked for
    /// together before the first is run.
    fn run_due(&mut self) {
        let now_us = now_us();
        loop {
            let mut batch = [0; BATCH];
            let mut length = 0;
            while length < BATCH
                && let Some(key) = self.wheel.pop(now_us)
            {
                batch[length] = key;
                length += 1;
            }
            let batch = &batch[..length];
            if batch.is_empty() {
                return self.flush();
            }
            self.playbacks_of(batch).for_each(prefetch);
            self.playbacks_of(batch).for_each(|task| prefetch(task.progress()));
            batch.iter().for_each(|key| self.fire(*key));
            if self.sending.scratch.queued() > 0 && self.sending.scratch.room() < BATCH {
                self.flush();
            }
        }
    }

    /// Does what is due for one task. The clock is read for each, so that lateness is what it really was.
    fn fire(&mut self, key: usize) {
        self.fire_at(key, now_us());
    }

    fn fire_at(&mut self, key: usize, now_us: u64) {
        match self.tasks.get_mut(key).map(|task| &mut task.work) {
            Some(Work::Playback(task)) => {
                let outcome = task.fire(&mut self.sending, now_us, key as u64);
                self.conclude(key, outcome);
            }
            Some(Work::Download(task)) => match task.waiting {
                Waiting::Room => self.check_stall(key, now_us),
                Waiting::Turn => self.scheduler.ready(key),
                Waiting::Storage | Waiting::Growth => {} // it is not the client who takes nothing
            },
            Some(Work::Stream(_)) => {
                self.submit_storage(key);
                self.ready_stream(key);
            }
            None => {}
        }
    }

    /// Does a piece of what is to be done for memory that comes or goes.
    fn tend(&mut self) -> RegistrationProgress {
        self.sending.scratch.poll_registrations().unwrap_or_else(|failed| {
            self.hold_failures.lock().unwrap_or_else(PoisonError::into_inner).push(failed);
            RegistrationProgress::More
        })
    }

    /// Sleeps until something is due or an event comes; answers whether there are commands.
    fn sleep(&mut self, tending: RegistrationProgress, next_turn_us: Option<u64>) -> bool {
        let due_us = [self.wheel.next_us(), next_turn_us].into_iter().flatten().min();
        let most_us = match tending {
            RegistrationProgress::More => Some(0),
            RegistrationProgress::Later => Some(TEND_AGAIN_US),
            RegistrationProgress::Done => None,
        };
        let timeout_us = due_us.map(|at_us| at_us.saturating_sub(now_us()));
        let timeout = most_us.into_iter().chain(timeout_us).min().map(duration);
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let ready = match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => return false,
            Err(errno) => {
                // Cannot happen with a descriptor and buffer of our own; going round again is the only thing to do.
                tracing::error!(%errno, "epoll_wait failed");
                return false;
            }
        };
        self.sending.counters.wakeups.add(1);
        let mut commands = false;
        for event in ready.iter() {
            match event.data.u64() {
                MAILBOX => commands = true,
                data => {
                    let flags = event.flags;
                    self.ready(data, flags);
                }
            }
        }
        commands
    }

    /// Gives those that have something to do their turns, until others must be looked at. Answers when there is more to do, in
    /// microseconds of CLOCK_MONOTONIC.
    fn run_turns(&mut self) -> Option<u64> {
        for _ in 0..TURNS {
            match self.scheduler.next(now_us()) {
                Next::Act { stream, allowance } => self.act(stream, allowance),
                Next::At(at_us) => return Some(at_us),
                Next::Nothing => return None,
            }
            self.run_due(); // playbacks have deadlines, downloads and streams have none
        }
        Some(0)
    }

    fn act(&mut self, key: usize, allowance: u64) {
        match self.tasks.get(key).map(|task| &task.work) {
            Some(Work::Download(_)) => self.turn(key),
            Some(Work::Stream(_)) => self.act_stream(key, allowance),
            Some(Work::Playback(_)) | None => {}
        }
    }

    /// Processor time that this thread has used, in nanoseconds, where classes share it.
    fn processor_ns(&self) -> Option<u64> {
        self.shares_time.then(thread_time_ns)
    }

    /// What was used since `begun_ns`, where classes share it. No turn is free, however coarse the clock.
    fn processor_ns_since(&self, begun_ns: Option<u64>) -> Option<u64> {
        begun_ns.map(|begun_ns| thread_time_ns().saturating_sub(begun_ns).max(1))
    }

    /// A descriptor that a task waits for became ready, or has failed.
    fn ready(&mut self, data: u64, flags: epoll::EventFlags) {
        let (key, port) = watch::parts(data);
        match self.tasks.get_mut(key).map(|task| &mut task.work) {
            Some(Work::Download(_)) => self.rouse(key, Waiting::Room),
            Some(Work::Stream(task)) => {
                task.stream.note_ready(port);
                if flags.contains(epoll::EventFlags::PRI) {
                    task.stream.note_urgent(port);
                }
                if flags.contains(epoll::EventFlags::ERR) {
                    task.stream.note_broken(port);
                }
                self.ready_stream(key);
            }
            Some(Work::Playback(_)) | None => {}
        }
    }

    fn add(&mut self, id: u64, work: Work) -> usize {
        let key = self.tasks.insert(Task { id, work });
        self.keys.insert(id, key);
        key
    }

    /// Ends a task that its owner let go of, or that failed.
    fn remove(&mut self, key: usize, error: Option<PlayError>) {
        match self.tasks.get_mut(key).map(|task| &mut task.work) {
            Some(Work::Playback(task)) => {
                if let Some(error) = error {
                    task.fail(error);
                }
                self.forget(key);
                self.sending.counters.playbacks.fetch_sub(1, Relaxed);
            }
            Some(Work::Download(_)) => self.end_download(key, Some(DownloadError::Stopped)),
            Some(Work::Stream(_)) => self.end_stream(key, Err(StreamError::Stopped)),
            None => {}
        }
    }

    fn forget(&mut self, key: usize) -> Work {
        self.wheel.cancel(key);
        self.scheduler.remove(key);
        let task = self.tasks.remove(key);
        self.keys.remove(&task.id);
        task.work
    }
}

fn duration(us: u64) -> Timespec {
    Timespec { tv_sec: (us / 1_000_000) as i64, tv_nsec: (us % 1_000_000 * 1000) as i64 }
}
