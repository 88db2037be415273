//! Threads that do long work in turns, in the order of need.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use wirepath_engine::{BlockingPool, Priority, catch_panic};

mod queue;
mod signal;

use queue::{Queue, Survey, Urgency, UrgentState};
pub(super) use signal::UrgencySignal;

/// Time before a playback needs work from which the work is urgent: longer than a turn of a low-priority
/// thread takes while the processors are busy.
const URGENT: Duration = Duration::from_secs(1);

/// Least interval of checking waiting work for urgency, since each check queries all of it.
const URGENCY_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Time after which an idle thread checks again whether urgent work is still urgent, and whether the urgent
/// thread is late.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Work that is done in turns.
pub(super) trait Work: Send + Sized + 'static {
    /// Does part of the work; returns the work if there is more to do. The first turn should be the shortest.
    fn turn(self) -> Option<Self>;

    /// Time of the next turn; the earliest goes first. It may change while the work waits. If it becomes
    /// earlier because a playback needs the work sooner, the cause of that notifies the queue's
    /// [`UrgencySignal`].
    fn due(&self) -> Due;

    /// Returns whether it had a turn.
    fn has_begun(&self) -> bool;

    /// Bytes of memory held until the next turn; none before the first.
    fn held_bytes(&self) -> u64;
}

/// Time of the next turn of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A playback waits for it from this time on, which may be in the past.
    Playback(Instant),
    /// Nobody waits; the time only orders the work.
    Nobody(Instant),
}

/// Threads for urgent work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrgentThread {
    /// None: no playback waits for any of the work.
    None,
    /// One thread of normal priority, so that urgent work takes at most its share of one processor.
    One,
}

/// Threads and their waiting work. The threads end when this is dropped, together with that work.
pub(super) struct WorkQueue<W: Work> {
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    queue: Mutex<Queue<W>>,
    /// Notifies the threads of nice 10 of changes.
    changed: Condvar,
    urgent: Arc<UrgencySignal>,
}

/// Existing work, and the memory that it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backlog {
    /// Number of works that wait for a turn, or have one.
    pub(super) works: usize,
    /// Bytes of memory that they hold.
    pub(super) held_bytes: u64,
}

impl<W: Work> WorkQueue<W> {
    /// Starts `threads` threads (at least one) called `name` and a number, at nice 10, and optionally one of
    /// normal priority for urgent work. The other threads do urgent work only while that thread is late,
    /// because a turn at their priority may take long. While works hold `budget` bytes or more, only those
    /// that hold the most have turns, until they hold less or are done; others wait. So the memory of all
    /// work is limited to the budget plus the memory of one work for each thread, including the urgent one.
    pub(super) fn start(
        name: &str,
        threads: usize,
        urgent_thread: UrgentThread,
        budget: u64,
    ) -> io::Result<WorkQueue<W>> {
        let (queue, urgent) = (Mutex::new(Queue::new(budget)), Arc::default());
        let shared = Arc::new(Shared { queue, changed: Condvar::new(), urgent });
        let start = |name: &str, threads, priority, urgency| {
            let pool = BlockingPool::start(name, threads, priority)?;
            for _ in 0..threads {
                let shared = Arc::clone(&shared);
                let submitted = pool.submit(move || shared.run(urgency));
                debug_assert!(submitted, "nothing else is in that queue");
            }
            io::Result::Ok(())
        };
        let urgency = match urgent_thread {
            UrgentThread::None => Urgency::All,
            UrgentThread::One => {
                start(&format!("{name}-now"), 1, Priority::Normal, Urgency::Urgent)?;
                Urgency::Rest
            }
        };
        start(name, threads.max(1), Priority::Background, urgency)?;
        Ok(WorkQueue { shared })
    }

    /// Queues work; returns it if it has not begun and there is no room.
    pub(super) fn submit(&self, work: W) -> Result<(), W> {
        let mut queue = self.shared.queue.lock();
        let due = work.due();
        queue.push(work)?;
        let (is_first, is_urgent) = (queue.works() == 1, queue.concerns_urgent_thread(Some(due)));
        drop(queue);
        if is_first {
            self.shared.changed.notify_all(); // from now on all look from time to time
        } else {
            self.shared.changed.notify_one();
        }
        if is_urgent {
            self.shared.urgent.notify();
        }
        Ok(())
    }

    /// The signal to notify when waiting work is needed sooner than before.
    pub(super) fn urgency_signal(&self) -> Arc<UrgencySignal> {
        Arc::clone(&self.shared.urgent)
    }

    /// Returns whether there is no work.
    pub(super) fn is_idle(&self) -> bool {
        self.backlog().works == 0
    }

    /// The work that there is.
    pub(super) fn backlog(&self) -> Backlog {
        let queue = self.shared.queue.lock();
        Backlog { works: queue.works(), held_bytes: queue.held }
    }
}

impl<W: Work> Drop for WorkQueue<W> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.ended = true;
        let waiting = (std::mem::take(&mut queue.new), std::mem::take(&mut queue.begun));
        drop(queue);
        self.shared.changed.notify_all();
        self.shared.urgent.end();
        drop(waiting); // outside the lock: files are closed
    }
}

impl<W: Work> Shared<W> {
    fn run(&self, urgency: Urgency) {
        while let Some(work) = self.next(urgency) {
            let held = work.held_bytes();
            // A panic is a bug of ours, but not a reason to stop other work.
            let rest = catch_panic(|| work.turn()).unwrap_or_else(|_| {
                tracing::error!("background work panicked; it is dropped");
                None
            });
            self.end_turn(urgency, held, rest);
        }
    }

    /// Requeues work after a turn, and notifies threads that may have work now. The thread of the turn checks
    /// by itself.
    fn end_turn(&self, urgency: Urgency, held: u64, rest: Option<W>) {
        let holds = rest.as_ref().map_or(0, W::held_bytes);
        let mut queue = self.queue.lock();
        let had_room = queue.has_room();
        queue.held = queue.held - held + holds;
        let gives_room = queue.has_room() && !had_room;
        // Queried while the queue is locked. A playback that needs the work sooner after this notifies the
        // signal.
        let due = rest.as_ref().map(W::due);
        let done = match rest {
            Some(work) if !queue.ended => {
                queue.begun.push(work);
                None
            }
            done => {
                queue.begun_count -= 1;
                done
            }
        };
        let is_urgent = urgency != Urgency::Urgent && queue.concerns_urgent_thread(due);
        drop(queue);
        drop(done); // outside the lock: files are closed
        if gives_room {
            self.changed.notify_all();
        } else if urgency == Urgency::Urgent {
            self.changed.notify_one();
        }
        if is_urgent {
            self.urgent.notify();
        }
    }

    /// Waits for the work with the next turn; none when the queue has ended.
    fn next(&self, urgency: Urgency) -> Option<W> {
        let mut queue = self.queue.lock();
        while !queue.ended {
            let now = Instant::now();
            let survey = match queue.next(urgency, now) {
                Ok(work) => return Some(work),
                Err(survey) => survey,
            };
            match urgency {
                Urgency::Urgent => self.wait_for_urgent(&mut queue, &survey, now),
                // Urgent work may have become ordinary without a notification, because its session ended.
                Urgency::Rest if queue.works() > 0 => {
                    self.changed.wait_for(&mut queue, RECHECK_INTERVAL);
                }
                _ => self.changed.wait(&mut queue),
            }
        }
        None
    }

    /// Waits, on the urgent thread, until work may be urgent or may have room.
    fn wait_for_urgent(&self, queue: &mut MutexGuard<'_, Queue<W>>, survey: &Survey, now: Instant) {
        if survey.has_others {
            // Work may have been urgent when the other threads checked.
            self.changed.notify_one();
        }
        let waits = !queue.new.is_empty() || !queue.begun.is_empty();
        let pause = if waits { URGENCY_CHECK_INTERVAL } else { Duration::ZERO };
        let until = survey.others_needed_at.map(|at| at.checked_sub(URGENT).unwrap_or(now));
        queue.urgent = match survey.has_own() {
            true => UrgentState::WaitsForRoom,
            false => UrgentState::Waits { until },
        };
        MutexGuard::unlocked(queue, || self.urgent.wait(pause, until));
    }
}

#[cfg(test)]
mod tests;
