//! Threads of a run. Each thread has an event loop and a share of the sessions.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc as async_mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use wirepath_media::random::Random;

use crate::mix::{self, Chooser};
use crate::record::{Ending, SessionRecord};
use crate::session::{self, Plan, Shared};

/// Time for which a silently vanished session keeps its sockets. It is longer than the timeouts of servers.
const SILENCE: Duration = Duration::from_secs(120);

/// Minimum time between the starts of two consecutive sessions, if the first one reached the end of its
/// media.
const SHORTEST: Duration = Duration::from_secs(1);

/// Interval at which the lateness of an event loop is measured.
const TICK: Duration = Duration::from_millis(10);

/// State shared by threads to start sessions.
#[derive(Debug)]
pub(crate) struct Starter {
    pub(crate) shared: Arc<Shared>,
    chooser: Chooser,
    seed: u64,
    /// Number of sessions started so far.
    next: AtomicU64,
}

/// Thread of a run. It ends when the run is stopped and its sessions are over.
pub(crate) struct Worker {
    /// Sender of requests to start a session.
    pub(crate) start: async_mpsc::UnboundedSender<()>,
    pub(crate) thread: JoinHandle<()>,
}

impl Starter {
    pub(crate) fn new(shared: Arc<Shared>, seed: u64) -> Starter {
        let chooser = Chooser::new(shared.options.mix, shared.options.targets.len());
        Starter { shared, chooser, seed, next: AtomicU64::new(0) }
    }

    /// Plan of the next session.
    fn plan(&self) -> Plan {
        let number = self.next.fetch_add(1, Relaxed);
        let mut random = Random::new(self.seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let judged = mix::share(&mut random) < self.shared.options.sample || number == 0;
        let target = self.chooser.choose(number, &mut random);
        Plan { number, target, judged, seed: random.below(u64::MAX) }
    }
}

impl Worker {
    /// Starts a thread, which sends a record of each finished session.
    pub(crate) fn spawn(
        starter: &Arc<Starter>,
        stop: &watch::Receiver<bool>,
        records: &mpsc::Sender<SessionRecord>,
    ) -> io::Result<Worker> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (start, starts) = async_mpsc::unbounded_channel();
        let (starter, stop, records) = (Arc::clone(starter), stop.clone(), records.clone());
        let work = move || runtime.block_on(work(starter, starts, stop, records));
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn(work)?;
        Ok(Worker { start, thread })
    }
}

/// Runs sessions until the run is stopped, and then waits for their end.
async fn work(
    starter: Arc<Starter>,
    mut starts: async_mpsc::UnboundedReceiver<()>,
    mut stop: watch::Receiver<bool>,
    records: mpsc::Sender<SessionRecord>,
) {
    let (mut slots, stop_of_slots) = (JoinSet::new(), stop.clone());
    let watching = tokio::spawn(watch_lateness(Arc::clone(&starter.shared)));
    loop {
        tokio::select! {
            start = starts.recv() => match start {
                Some(()) => {
                    slots.spawn(slot(Arc::clone(&starter), stop_of_slots.clone(), records.clone()));
                }
                None => break,
            },
            Some(_) = slots.join_next() => {}
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
    // From here on, the thread is late because of its own work: all sessions end at once.
    watching.abort();
    while slots.join_next().await.is_some() {}
}

/// Plays sessions one after another, as long as they end regularly.
async fn slot(starter: Arc<Starter>, mut stop: watch::Receiver<bool>, records: mpsc::Sender<SessionRecord>) {
    loop {
        let restart = Instant::now() + SHORTEST;
        let finished = session::play(Arc::clone(&starter.shared), starter.plan(), stop.clone()).await;
        let ending = finished.record.ending;
        if let Some(sockets) = finished.silent {
            let (mut stop, shared) = (stop.clone(), Arc::clone(&starter.shared));
            tokio::spawn(async move {
                // Waits until the run is over, the sender is gone, or the time has passed.
                _ = tokio::time::timeout(SILENCE, stop.wait_for(|stop| *stop)).await;
                drop(sockets);
                shared.silent.fetch_sub(1, Relaxed);
            });
        }
        // The receiver is gone if the run was abandoned.
        let goes_on = records.send(finished.record).is_ok();
        if !goes_on || *stop.borrow_and_update() || matches!(ending, Ending::Failed | Ending::RunOver) {
            return;
        }
        if ending == Ending::MediaOver {
            // Very short media must not make sessions start faster than any ramp.
            if tokio::time::timeout_at(restart, stop.wait_for(|stop| *stop)).await.is_ok() {
                return; // the run is over
            }
        }
    }
}

/// Measures how late a timer of this event loop fires.
async fn watch_lateness(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = ticks.tick().await;
        let late = Instant::now().saturating_duration_since(due);
        shared.totals.client.lock().event_loops.add(i64::try_from(late.as_micros()).unwrap_or(i64::MAX));
    }
}
