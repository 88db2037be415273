//! One engine thread: runs what is due, then sleeps until something is.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use slab::Slab;
use wirepath_datapath::{HoldError, Region, Scratch, SendError, Support, Tending, prefetch};

use crate::EngineOptions;
use crate::blocking::{BlockingPool, warm};
use crate::clock::now_us;
use crate::counters::ThreadCounters;
use crate::download::{DownloadError, DownloadTask, Turn, Waiting};
use crate::engine::Mailbox;
use crate::playback::{Outcome, PlayError, PlaybackTask, Position, RETRY_US, Reply, TRAINS_PER_TURN};
use crate::slots::Slots;
use crate::source::Cursor;
use crate::wheel::Wheel;

/// What an engine thread is told.
pub(crate) enum Command {
    AddPlayback {
        id: u64,
        task: Box<PlaybackTask>,
    },
    AddDownload {
        id: u64,
        task: Box<DownloadTask>,
    },
    Play {
        id: u64,
        from: Option<Cursor>,
        until_us: u64,
        reply: Reply<Position>,
    },
    Pause {
        id: u64,
        reply: Reply<u64>,
    },
    Stop {
        id: u64,
    },
    /// What a download waited for is in memory, up to this byte, or could not be read.
    Warmed {
        id: u64,
        result: io::Result<u64>,
    },
    /// Memory that trains may be sent from, until it is let go of.
    Hold(Arc<Region>),
    LetGo {
        region_id: u64,
    },
    Quit,
}

/// What threads could not register, until somebody looks.
pub(crate) type HoldFailures = Arc<Mutex<Vec<HoldError>>>;

/// What sending needs of its thread.
pub(crate) struct Sending {
    pub(crate) scratch: Scratch,
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
    epoll: OwnedFd,
    wheel: Wheel,
    tasks: Slab<Task>,
    /// Keys in `tasks` by the identity that commands carry.
    keys: HashMap<u64, usize>,
    /// Downloads that have more to do at once, and those whose turn it is.
    eager: Vec<usize>,
    turns: Vec<usize>,
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
}

/// The epoll key of the mailbox; tasks have their own keys.
const MAILBOX: u64 = u64::MAX;

/// Tasks that are brought into the caches together: some 15 KiB.
const BATCH: usize = 32;

/// When to look again whether the network is done with memory that is to be let go of.
const TEND_AGAIN_US: u64 = 100_000;

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
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &mailbox.wake, epoll::EventData::new_u64(MAILBOX), epoll::EventFlags::IN)?;
        Ok(Worker {
            options,
            mailbox,
            readers,
            sending: Sending { scratch: Scratch::default(), counters, support, slots: Slots::default() },
            epoll,
            wheel: Wheel::new(now_us()),
            tasks: Slab::new(),
            keys: HashMap::new(),
            eager: Vec::new(),
            turns: Vec::new(),
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
            self.run_downloads();
            let tending = self.tend();
            if self.sleep(tending) {
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

    /// Sends what was queued, in one call, and has each playback go on with its answer. Some may have more that is due and queue
    /// again; after some turns they wait until others had theirs.
    fn flush(&mut self) {
        let mut turn = 0;
        while self.sending.scratch.queued() > 0 {
            turn += 1;
            self.send_queued();
            let now_us = now_us();
            for index in 0..self.answers.len() {
                let (key, result) = (self.answers[index].0 as usize, self.answers[index].1);
                let Some(Task { work: Work::Playback(task), .. }) = self.tasks.get_mut(key) else { continue };
                match task.answered(result, &mut self.sending, now_us) {
                    Outcome::Again(at_us) if at_us <= now_us && turn < TRAINS_PER_TURN => {
                        self.fire_at(key, now_us);
                    }
                    outcome => self.conclude(key, outcome),
                }
            }
        }
    }

    fn send_queued(&mut self) {
        let Worker { sending, answers, .. } = self;
        answers.clear();
        sending.scratch.flush(|key, result| answers.push((key, result)));
        sending.counters.batches.add(1);
    }

    fn playbacks_of(&self, keys: &[usize]) -> impl Iterator<Item = &PlaybackTask> {
        keys.iter().filter_map(|key| match &self.tasks.get(*key)?.work {
            Work::Playback(task) => Some(&**task),
            Work::Download(_) => None,
        })
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
                Waiting::Turn => self.eager.push(key),
                Waiting::Storage => {} // it is not the client who takes nothing
            },
            None => {}
        }
    }

    fn conclude(&mut self, key: usize, outcome: Outcome) {
        match outcome {
            Outcome::Again(at_us) => self.wheel.set(key, at_us),
            Outcome::Queued | Outcome::Rest => {}
            Outcome::Over(error) => self.remove(key, Some(error)),
        }
    }

    /// Gives each download that has something to do one turn.
    fn run_downloads(&mut self) {
        std::mem::swap(&mut self.eager, &mut self.turns);
        for index in 0..self.turns.len() {
            self.turn(self.turns[index]);
            self.run_due(); // playbacks have deadlines, downloads have none
        }
        self.turns.clear();
    }

    fn turn(&mut self, key: usize) {
        let Some(Task { id, work: Work::Download(task) }) = self.tasks.get_mut(key) else { return };
        let (id, before) = (*id, task.sent());
        let turn = task.turn();
        if task.sent() > before {
            self.sending.counters.download_octets.add(task.sent() - before);
            task.progress_us = now_us();
        }
        match turn {
            Turn::More => self.eager.push(key),
            Turn::Full => {
                task.waiting = Waiting::Room;
                self.wheel.set(key, task.progress_us + self.options.download_stall_us);
            }
            Turn::Over(error) => self.end_download(key, error),
            Turn::Cold(file, range) => {
                self.sending.counters.cold_waits.add(1);
                let mailbox = Arc::clone(&self.mailbox);
                let job = move || {
                    let result = warm(&file, range.clone()).map(|()| range.end);
                    mailbox.send(Command::Warmed { id, result });
                };
                if self.readers.submit(job) {
                    task.waiting = Waiting::Storage;
                } else {
                    self.wheel.set(key, now_us() + RETRY_US); // the readers have too much to do
                }
            }
        }
    }

    /// Has a download take a turn, if it waits for what has come.
    fn rouse(&mut self, key: usize, what_came: Waiting) {
        if let Some(Task { work: Work::Download(task), .. }) = self.tasks.get_mut(key)
            && task.waiting == what_came
        {
            task.waiting = Waiting::Turn;
            self.wheel.cancel(key);
            self.eager.push(key);
        }
    }

    /// Ends a download that has taken nothing for too long, or looks again when that could be.
    fn check_stall(&mut self, key: usize, now_us: u64) {
        let Some(Task { work: Work::Download(task), .. }) = self.tasks.get(key) else { return };
        let deadline_us = task.progress_us + self.options.download_stall_us;
        if now_us >= deadline_us {
            self.end_download(key, Some(DownloadError::Stalled));
        } else {
            self.wheel.set(key, deadline_us);
        }
    }

    /// Does a piece of what is to be done for memory that comes or goes.
    fn tend(&mut self) -> Tending {
        self.sending.scratch.tend().unwrap_or_else(|failed| {
            self.hold_failures.lock().unwrap_or_else(PoisonError::into_inner).push(failed);
            Tending::More
        })
    }

    /// Sleeps until something is due or an event comes; answers whether there are commands.
    fn sleep(&mut self, tending: Tending) -> bool {
        let due_us = || self.wheel.next_us().map(|at_us| at_us.saturating_sub(now_us()));
        let most_us = match tending {
            Tending::More => Some(0),
            Tending::Later => Some(TEND_AGAIN_US),
            Tending::Done => None,
        };
        let timeout_us = if self.eager.is_empty() { due_us() } else { Some(0) };
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
                key => self.rouse(key as usize, Waiting::Room),
            }
        }
        commands
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::AddPlayback { id, task } => {
                self.add(id, Work::Playback(task));
            }
            Command::AddDownload { id, task } => self.add_download(id, task),
            Command::Play { id, from, until_us, reply } => match self.playback(id) {
                Some((key, task)) => {
                    task.play(from, until_us, reply);
                    self.fire(key);
                    self.flush(); // what comes next may be a command for the same playback
                }
                None => reply(Err(PlayError::Over)),
            },
            Command::Pause { id, reply } => match self.playback(id) {
                Some((key, task)) => {
                    let at_us = task.pause();
                    self.wheel.cancel(key);
                    reply(Ok(at_us));
                }
                None => reply(Err(PlayError::Over)),
            },
            Command::Stop { id } => {
                if let Some(key) = self.keys.get(&id).copied() {
                    self.remove(key, None);
                }
            }
            Command::Warmed { id, result } => self.warmed(id, result),
            Command::Hold(region) => self.sending.scratch.hold(region),
            Command::LetGo { region_id } => self.sending.scratch.let_go(region_id),
            Command::Quit => {}
        }
    }

    fn add(&mut self, id: u64, work: Work) -> usize {
        let key = self.tasks.insert(Task { id, work });
        self.keys.insert(id, key);
        key
    }

    fn add_download(&mut self, id: u64, mut task: Box<DownloadTask>) {
        task.progress_us = now_us();
        let key = self.add(id, Work::Download(task));
        let Some(Task { work: Work::Download(task), .. }) = self.tasks.get(key) else { return };
        let data = epoll::EventData::new_u64(key as u64);
        let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
        match epoll::add(&self.epoll, &task.socket, data, flags) {
            Ok(()) => self.rouse(key, Waiting::Room),
            Err(errno) => {
                self.end_download(key, Some(SendError::Other { call: "epoll_ctl", errno }.into()));
            }
        }
    }

    fn warmed(&mut self, id: u64, result: io::Result<u64>) {
        let Some(key) = self.keys.get(&id).copied() else { return };
        let Some(Task { work: Work::Download(task), .. }) = self.tasks.get_mut(key) else { return };
        match result {
            Ok(until) => {
                task.warmed(until);
                self.rouse(key, Waiting::Storage);
            }
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                self.end_download(key, Some(SendError::Storage { call: "pread", errno }.into()));
            }
        }
    }

    fn playback(&mut self, id: u64) -> Option<(usize, &mut PlaybackTask)> {
        let key = *self.keys.get(&id)?;
        match &mut self.tasks.get_mut(key)?.work {
            Work::Playback(task) => Some((key, task)),
            Work::Download(_) => None,
        }
    }

    fn end_download(&mut self, key: usize, error: Option<DownloadError>) {
        let Some(Task { work: Work::Download(task), .. }) = self.tasks.get_mut(key) else { return };
        // The caller holds the same connection under another descriptor, so closing ours would not remove it here.
        if let Err(errno) = epoll::delete(&self.epoll, &task.socket)
            && errno != Errno::NOENT
        {
            tracing::error!(%errno, "a connection could not be taken out of epoll");
        }
        task.end(error);
        self.forget(key);
        self.sending.counters.downloads.fetch_sub(1, Relaxed);
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
            None => {}
        }
    }

    fn forget(&mut self, key: usize) {
        self.wheel.cancel(key);
        self.eager.retain(|other| *other != key);
        let task = self.tasks.remove(key);
        self.keys.remove(&task.id);
    }

    fn quit(mut self) {
        let keys: Vec<usize> = self.tasks.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.remove(key, Some(PlayError::Over));
        }
    }
}

fn duration(us: u64) -> Timespec {
    Timespec { tv_sec: (us / 1_000_000) as i64, tv_nsec: (us % 1_000_000 * 1000) as i64 }
}
