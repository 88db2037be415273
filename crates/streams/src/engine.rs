//! The engine: its threads, and how work reaches them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use wirepath_datapath::{Choice, Region, RegisterError, Support, path_mtu};

use crate::DownloadEnd;
use crate::blocking::BlockingPool;
use crate::counters::{Counters, ThreadCounters};
use crate::download::{Download, DownloadTask, Part};
use crate::playback::{Playback, PlaybackOptions, PlaybackTask, Progress};
use crate::running::{RunningStream, StreamOptions, StreamTask};
use crate::schedule::{Class, Policy, Round};
use crate::stream::Stream;
use crate::worker::{Command, HoldFailures, Worker};

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Number of engine threads; at least one.
    pub threads: usize,
    /// A download that takes nothing for so long is ended.
    pub download_stall_us: u64,
    /// Whether each thread opens a ring, for what [`Engine::hold`] is given.
    pub ring: bool,
    /// How streams and downloads share a thread. Playbacks go before both: they have deadlines.
    pub sharing: Sharing,
}

impl Default for EngineOptions {
    /// One thread, no ring, a minute for a download that takes nothing, and no classes.
    fn default() -> EngineOptions {
        EngineOptions { threads: 1, download_stall_us: 60_000_000, ring: false, sharing: Sharing::default() }
    }
}

/// How streams and downloads share a thread. Of several, each does so by itself.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// How classes are weighed against each other on each thread. Volume is the bytes that they read and write; of processor time,
    /// what each stream took is in its status ([`StreamStatus::processor_time`](crate::StreamStatus::processor_time)).
    pub policy: Policy,
    /// The classes; none is one without limits. Downloads are of the first. All streams of a class with a rate are on one thread,
    /// where it holds for all of them, unless [`StreamOptions::thread`] says otherwise.
    pub classes: Vec<Class>,
}

impl Sharing {
    /// Whether what classes share is processor time: only then are turns of streams measured.
    pub fn is_of_processor_time(&self) -> bool {
        matches!(self.policy, Policy::FairShare { round: Round::ProcessorTime(_), .. })
    }
}

impl Default for Sharing {
    fn default() -> Sharing {
        Sharing { policy: Policy::BestEffort, classes: Vec::new() }
    }
}

/// Threads that send what is due. They end when this is dropped, and with them all playbacks and downloads.
pub struct Engine {
    threads: Vec<EngineThread>,
    /// For each class whether it has a rate.
    have_rates: Vec<bool>,
    support: Arc<Support>,
    next_id: AtomicU64,
    hold_failures: HoldFailures,
    readers: BlockingPool,
}

struct EngineThread {
    mailbox: Arc<Mailbox>,
    counters: Arc<ThreadCounters>,
    handle: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the threads.
    ///
    /// # Errors
    /// What `epoll_create`, `eventfd` or starting a thread says.
    pub fn start(
        options: &EngineOptions,
        support: Arc<Support>,
        readers: &BlockingPool,
    ) -> io::Result<Engine> {
        let mut threads = Vec::new();
        let hold_failures = HoldFailures::default();
        for number in 0..options.threads.max(1) {
            let mailbox = Arc::new(Mailbox::new()?);
            let counters = Arc::new(ThreadCounters::default());
            let worker = Worker::new(
                options.clone(),
                Arc::clone(&mailbox),
                Arc::clone(&counters),
                Arc::clone(&support),
                readers.clone(),
                Arc::clone(&hold_failures),
            )?;
            let handle = thread::Builder::new().name(format!("engine-{number}")).spawn(|| worker.run())?;
            threads.push(EngineThread { mailbox, counters, handle: Some(handle) });
        }
        let next_id = AtomicU64::new(1);
        let have_rates = options.sharing.classes.iter().map(|class| class.rate.is_some()).collect();
        Ok(Engine { threads, have_rates, support, next_id, hold_failures, readers: readers.clone() })
    }

    /// Sets a playback up, which rests until it is told to play.
    ///
    /// # Errors
    /// What setting the socket up says.
    pub fn playback(&self, options: PlaybackOptions) -> io::Result<Playback> {
        let local = options.socket.local_addr()?.ip();
        let mtu = path_mtu(&options.socket)?;
        let Choice { path, reason } = self.support.choose(local, mtu);
        let own = self.support.choose_for_own_headers(local, mtu).path;
        let progress = Arc::new(Progress::default());
        let task = PlaybackTask::new(options, [path, own], Arc::clone(&progress), &self.readers)?;

        let thread = self.thread_for_playback();
        thread.counters.playbacks.fetch_add(1, Ordering::Relaxed);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        thread.mailbox.send(Command::AddPlayback { id, task: Box::new(task) });
        Ok(Playback { id, mailbox: Arc::clone(&thread.mailbox), progress, reason })
    }

    /// Sends `parts` to `socket`, a non-blocking connected stream socket, one after the other, and calls `on_end` once.
    /// Dropping the answer ends the download early. The caller must not write to the connection meanwhile.
    pub fn download(
        &self,
        socket: OwnedFd,
        parts: Vec<Part>,
        on_end: impl FnOnce(DownloadEnd) + Send + 'static,
    ) -> Download {
        let thread = self.thread_of_class(0);
        thread.counters.downloads.fetch_add(1, Ordering::Relaxed);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let task = DownloadTask::new(socket, parts, Box::new(on_end), &self.readers);
        thread.mailbox.send(Command::AddDownload { id, task: Box::new(task) });
        Download { id, mailbox: Arc::clone(&thread.mailbox) }
    }

    /// Starts a stream (KStreams' `startstream`). The handle stops it when it is dropped.
    pub fn start_stream(&self, stream: Stream, options: StreamOptions) -> RunningStream {
        let thread = match options.thread {
            Some(number) => &self.threads[number % self.threads.len()],
            None => self.thread_of_class(options.class),
        };
        thread.counters.streams.fetch_add(1, Ordering::Relaxed);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let task = Box::new(StreamTask::new(stream, options));
        let running = RunningStream::new(id, Arc::clone(&thread.mailbox), &task);
        thread.mailbox.send(Command::AddStream { id, task });
        running
    }

    /// Has all threads register a region with their rings. Where a thread has done so, playbacks of a medium that the region is
    /// a [copy of](wirepath_datapath::MappedFile::set_hot) send from there.
    pub fn hold(&self, region: &Arc<Region>) {
        self.threads.iter().for_each(|thread| thread.mailbox.send(Command::Hold(Arc::clone(region))));
    }

    /// Has all threads let go of a region, each when the network is done with what was sent from it.
    pub fn let_go(&self, region: &Region) {
        let region_id = region.id();
        self.threads.iter().for_each(|thread| thread.mailbox.send(Command::LetGo { region_id }));
    }

    /// What threads could not register since this was last asked.
    pub fn hold_failures(&self) -> Vec<RegisterError> {
        std::mem::take(&mut *self.hold_failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What all threads counted.
    pub fn counters(&self) -> Counters {
        let mut total = Counters::default();
        self.threads.iter().for_each(|thread| total.add(&thread.counters));
        total
    }

    /// What the host and its routes support.
    pub fn support(&self) -> &Support {
        &self.support
    }

    /// The threads that wait for storage, so that those of the engine and of whoever uses it need not.
    pub fn readers(&self) -> &BlockingPool {
        &self.readers
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// A thread that has some playbacks but not yet many, else the one that has least to do: a few playbacks on one thread
    /// wake one thread, on many threads they wake many.
    fn thread_for_playback(&self) -> &EngineThread {
        const FEW: u64 = 32;
        let has_few = |thread: &&EngineThread| {
            (1..FEW).contains(&thread.counters.playbacks.load(Ordering::Relaxed))
                && thread.counters.downloads.load(Ordering::Relaxed) == 0
        };
        self.threads.iter().find(has_few).unwrap_or_else(|| self.least_loaded())
    }

    /// The thread that has all of a class whose rate is to hold; of another class the one that has least to do.
    fn thread_of_class(&self, class: usize) -> &EngineThread {
        let class = class.min(self.have_rates.len().saturating_sub(1));
        match self.have_rates.get(class) {
            Some(true) => &self.threads[class % self.threads.len()],
            _ => self.least_loaded(),
        }
    }

    fn least_loaded(&self) -> &EngineThread {
        let load = |thread: &&EngineThread| {
            let counters = &thread.counters;
            [&counters.playbacks, &counters.downloads, &counters.streams]
                .map(|count| count.load(Ordering::Relaxed))
                .iter()
                .sum::<u64>()
        };
        self.threads.iter().min_by_key(load).expect("an engine has at least one thread")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for thread in &self.threads {
            thread.mailbox.send(Command::Quit);
        }
        for thread in &mut self.threads {
            if thread.handle.take().is_some_and(|handle| handle.join().is_err()) {
                tracing::error!("an engine thread panicked");
            }
        }
    }
}

/// Commands to one engine thread, and the descriptor that wakes it.
pub(crate) struct Mailbox {
    /// None when the thread is gone: what nobody will do is dropped, and with it the means by which somebody waits for it.
    commands: Mutex<Option<Vec<Command>>>,
    pub(crate) wake: OwnedFd,
    woken: AtomicBool,
}

impl Mailbox {
    fn new() -> io::Result<Mailbox> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { commands: Mutex::new(Some(Vec::new())), wake, woken: AtomicBool::new(false) })
    }

    /// Leaves a command. Commands from one caller are run in order.
    pub(crate) fn send(&self, command: Command) {
        match &mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(commands) => commands.push(command),
            None => return,
        }
        if !self.woken.swap(true, Ordering::AcqRel) {
            // It fails only if the counter is at its limit, and then the thread is awake anyway.
            let written = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
            debug_assert!(written.is_ok());
        }
    }

    /// Takes all commands into `into`, which is empty.
    pub(crate) fn take(&self, into: &mut Vec<Command>) {
        // The descriptor is emptied before the flag is lowered: a command that comes between wakes the thread again.
        let mut count = [0; 8];
        let read = rustix::io::read(&self.wake, &mut count);
        debug_assert!(read.is_ok_and(|length| length == count.len()));
        self.woken.store(false, Ordering::Release);
        if let Some(commands) = &mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner) {
            std::mem::swap(commands, into);
        }
    }

    /// Takes no more commands; answers those that were left.
    pub(crate) fn close(&self) -> Vec<Command> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}
