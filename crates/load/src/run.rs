//! Run: from the start of the first session to the result.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use wirepath_sys::usage::Usage;

use crate::options::Options;
use crate::outcome::{ClientCost, Collected, Outcome};
use crate::record::SessionRecord;
use crate::session::Shared;
use crate::storm::{StormOutcome, StormPhase};
use crate::storm_thread::StormThread;
use crate::totals::Snapshot;
use crate::worker::{Starter, Worker};

/// Interval of snapshots.
const SNAPSHOT: Duration = Duration::from_secs(1);

/// Maximum time between checks for due work.
const TURN: Duration = Duration::from_millis(5);

/// Time that sessions have to end, in addition to the time limit of a response.
const ENDING: Duration = Duration::from_secs(5);

/// Maximum number of snapshots kept. A longer run keeps the last ones.
const MOST_SNAPSHOTS: usize = 100_000;

/// Error that prevents a run from starting.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no asset to play.
    #[error("no asset to play: name at least one URL")]
    NoTarget,
    /// The URLs have different schemes.
    #[error("rtsp:// and http:// URLs cannot be mixed: start one run for each")]
    MixedSchemes,
    /// A thread could not be started, or there is no memory for it.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// Random numbers are not available.
    #[error("cannot get random numbers: {0}")]
    Random(#[source] getrandom::Error),
    /// The processor time cannot be read.
    #[error("cannot read processor time: {0}")]
    Usage(#[source] io::Error),
}

/// Observer of a run.
pub trait Observer {
    /// Handles a snapshot, which is taken once a second.
    fn snapshot(&mut self, snapshot: &Snapshot);

    /// Returns whether the run must end now. Called many times a second.
    fn is_stopped(&mut self) -> bool;
}

/// Running threads and their results.
struct Running {
    starter: Arc<Starter>,
    workers: Vec<Worker>,
    stop: watch::Sender<bool>,
    records: mpsc::Receiver<SessionRecord>,
    collected: Collected,
    timeline: Vec<Snapshot>,
    storm: Option<StormThread>,
    /// Start and end time of the storm.
    stormed: Option<(Instant, Instant)>,
}

/// Runs sessions according to the options.
///
/// # Errors
/// [`RunError`] before the first session. Failures of sessions are part of the outcome.
pub fn run(options: Options, observer: &mut dyn Observer) -> Result<Outcome, RunError> {
    if options.targets.is_empty() {
        return Err(RunError::NoTarget);
    }
    if options.targets.iter().any(|target| target.scheme != options.targets[0].scheme) {
        return Err(RunError::MixedSchemes);
    }
    let usage = Usage::of_process().map_err(RunError::Usage)?;
    let mut running = Running::start(options)?;
    let was_stopped = running.play(observer);
    let seconds = running.starter.shared.clock.elapsed().as_secs_f64();
    let used = Usage::of_process().map_err(RunError::Usage)?.since(usage);
    running.end();
    running.collected.add_shared_drops(running.starter.shared.pairs.drops());
    let storm = running.storm_outcome();
    let shared = &running.starter.shared;
    let client = ClientCost::new(used, seconds, shared.options.threads, &shared.totals.client.lock());
    let outcome =
        Outcome::new(&shared.options, running.collected, client, seconds, was_stopped, running.timeline);
    Ok(Outcome { storm, ..outcome })
}

impl Running {
    fn start(options: Options) -> Result<Running, RunError> {
        let threads = options.threads.max(1);
        let shared = Shared::new(options);
        let seed = getrandom::u64().map_err(RunError::Random)?;
        let starter = Arc::new(Starter::new(Arc::new(shared), seed));
        let (stop, stopped) = watch::channel(false);
        let (sender, records) = mpsc::channel();
        let workers = (0..threads).map(|_| Worker::spawn(&starter, &stopped, &sender));
        let workers = workers.collect::<io::Result<_>>().map_err(RunError::Thread)?;
        Ok(Running {
            starter,
            workers,
            stop,
            records,
            collected: Collected::default(),
            timeline: Vec::new(),
            storm: None,
            stormed: None,
        })
    }

    /// Starts sessions according to the ramp, and runs until the time is over. Returns whether the run was
    /// stopped before.
    fn play(&mut self, observer: &mut dyn Observer) -> bool {
        let shared = Arc::clone(&self.starter.shared);
        let options = &shared.options;
        let begin = Instant::now();
        let ramp = options.ramp_time();
        let (mut started, mut snapshots) = (0, 1);
        loop {
            let elapsed = begin.elapsed();
            let due = (elapsed.as_secs_f64() * options.ramp) as usize + 1;
            while started < due.min(options.sessions) {
                // Cannot fail: a thread ends only when it is told to.
                _ = self.workers[started % self.workers.len()].start.send(());
                started += 1;
            }
            self.storm(elapsed);
            if elapsed >= SNAPSHOT * snapshots {
                snapshots += 1;
                self.take_snapshot(observer);
            }
            if observer.is_stopped() {
                return true;
            }
            if elapsed >= ramp + options.duration || self.all_failed(started) {
                self.take_snapshot(observer);
                return false;
            }
            self.collect(TURN);
        }
    }

    /// Starts and ends the storm when it is due.
    fn storm(&mut self, elapsed: Duration) {
        let shared = &self.starter.shared;
        let Some(storm) = shared.options.storm else { return };
        let options = &shared.options;
        let judged = options.duration.saturating_sub(options.settle);
        let phase = storm.phase_at(elapsed, options.ramp_time() + options.settle, judged);
        shared.totals.storm.enter(phase);
        match (phase, self.stormed) {
            (Some(StormPhase::During), None) => {
                // Without a thread there is no storm, and its result shows that nothing was requested.
                self.storm = StormThread::start(shared, storm).ok();
                self.stormed = Some((Instant::now(), Instant::now()));
            }
            (Some(StormPhase::After), _) => self.end_storm(),
            _ => {}
        }
    }

    fn end_storm(&mut self) {
        if let (Some(thread), Some((_, end))) = (self.storm.take(), &mut self.stormed) {
            *end = Instant::now();
            thread.end();
        }
    }

    /// Result of the storm, if there was one.
    fn storm_outcome(&self) -> Option<StormOutcome> {
        let shared = &self.starter.shared;
        let seconds = self.stormed.map_or(0.0, |(begin, end)| (end - begin).as_secs_f64());
        shared.options.storm.map(|storm| shared.totals.storm.outcome(storm, seconds))
    }

    /// Returns whether all sessions were started and have failed.
    fn all_failed(&self, started: usize) -> bool {
        started == self.starter.shared.options.sessions && self.collected.failed >= started as u64
    }

    fn take_snapshot(&mut self, observer: &mut dyn Observer) {
        let shared = &self.starter.shared;
        let snapshot = shared.totals.snapshot(shared.clock.elapsed().as_secs_f64(), shared.options.scheme());
        if self.timeline.len() == MOST_SNAPSHOTS {
            self.timeline.remove(0);
        }
        self.timeline.push(snapshot);
        observer.snapshot(&snapshot);
    }

    /// Collects records for this long.
    fn collect(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            match self.records.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(record) => {
                    self.collected.add(record);
                    if Instant::now() >= until {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return,
                // All threads have ended, and their records are collected.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                    return;
                }
            }
        }
    }

    /// Ends all sessions and collects their records.
    fn end(&mut self) {
        self.end_storm();
        let shared = &self.starter.shared;
        shared.totals.storm.enter(None);
        shared.stopped_us.store(shared.clock.now_us(), Relaxed);
        // Fails only if all threads have already ended.
        _ = self.stop.send(true);
        let until = Instant::now() + self.starter.shared.options.timeout + ENDING;
        while Instant::now() < until && self.workers.iter().any(|worker| !worker.thread.is_finished()) {
            self.collect(TURN);
        }
        self.records.try_iter().for_each(|record| self.collected.add(record));
        self.collected.add_lost(self.starter.shared.totals.started.load(Relaxed));
    }
}
