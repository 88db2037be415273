//! Threads that do long work in turns, in the order in which it is needed.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use wirepath_engine::{BlockingPool, Priority, catch_panic};

mod signal;

pub(super) use signal::UrgencySignal;

/// Most works that have begun; more wait for their first turn. Each holds some memory, and disk space.
const MOST_BEGUN: usize = 2048;

/// Part of those that only urgent work may begin.
const KEPT_FOR_URGENT: usize = 256;

/// Most works that wait for their first turn; more are refused.
const MOST_WAITING: usize = 4096;

/// Time before a playback needs it from which work is urgent: longer than a turn takes on a thread of low
/// priority while the processors are busy.
const URGENT: Duration = Duration::from_secs(1);

/// Least interval of looking for urgent work among work that waits: each look asks all of it.
const URGENCY_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Work that is done in turns.
pub(super) trait Work: Send + Sized + 'static {
    /// Does some of it; returns the work if there is more to do. The first turn should be the shortest.
    fn turn(self) -> Option<Self>;

    /// Time of the next turn; the earliest goes first. It may change while the work waits: whoever lets a
    /// playback need it sooner notifies the queue's [`UrgencySignal`].
    fn due(&self) -> Due;

    /// Bytes of memory that it holds until its next turn; work without a turn yet holds nothing worth
    /// counting.
    fn held_bytes(&self) -> u64;
}

/// Time of the next turn of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A playback waits for it, if the time is over, or will then.
    Playback(Instant),
    /// Nobody waits: the time gives works their order.
    Nobody(Instant),
}

/// Threads for urgent work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrgentThread {
    /// None: nobody waits for any of the work.
    None,
    /// One of normal priority, so that urgent work takes at most its share of one processor.
    One,
}

/// Threads and the work that waits for them. They end when this is dropped, with that work.
pub(super) struct WorkQueue<W: Work> {
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    queue: Mutex<Queue<W>>,
    /// Changes for the threads at nice 10.
    changed: Condvar,
    urgent: Arc<UrgencySignal>,
}

/// Work that there is, and the memory that it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backlog {
    /// Works that wait for a turn, or have one.
    pub(super) works: usize,
    /// Bytes of memory that they hold.
    pub(super) held_bytes: u64,
}

/// Urgency of the work that a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    All,
    /// Work that a playback waits for, or needs soon.
    Urgent,
    /// All other work: a thread of low priority may stand still for long in the middle of a turn.
    Rest,
}

struct Queue<W> {
    /// Work without a turn yet, in the order in which it is needed, and work that had some.
    new: VecDeque<W>,
    begun: Vec<W>,
    /// Number of works that have begun, whether they wait or have their turn.
    begun_count: usize,
    /// Most bytes that works may hold for another to begin.
    budget: u64,
    /// Bytes that works hold, as of the end of their last turns.
    held: u64,
    ended: bool,
}

/// Time after which a thread looks again whether urgent work is still urgent.
const RECHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Waiting work as a thread sees it.
#[derive(Debug, Default)]
struct Survey {
    /// Index of the first new work for the thread, and of the earliest that has begun, with their times.
    new: Option<(usize, Instant)>,
    begun: Option<(usize, Instant)>,
    /// True if there is other work.
    has_others: bool,
    /// Time at which a playback needs the first of the others.
    others_needed_at: Option<Instant>,
}

impl<W: Work> WorkQueue<W> {
    /// Starts `threads` threads (at least one) called `name` and a number, at nice 10, and perhaps one of
    /// normal priority for urgent work.
    /// While works hold `budget` bytes or more, those that hold the most have their turns, until they hold
    /// less or are done; others wait. So the memory of all is bounded by the budget, and what one work for each
    /// thread, the urgent one included, can hold.
    pub(super) fn start(
        name: &str,
        threads: usize,
        urgent_thread: UrgentThread,
        budget: u64,
    ) -> io::Result<WorkQueue<W>> {
        let (new, begun) = (VecDeque::new(), Vec::new());
        let queue = Queue { new, begun, begun_count: 0, budget, held: 0, ended: false };
        let (queue, urgent) = (Mutex::new(queue), Arc::default());
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

    /// Queues work; returns it if there is no room.
    pub(super) fn submit(&self, work: W) -> Result<(), W> {
        let mut queue = self.shared.queue.lock();
        if queue.new.len() >= MOST_WAITING {
            return Err(work);
        }
        queue.new.push_back(work);
        drop(queue);
        self.shared.changed.notify_one();
        self.shared.urgent.notify();
        Ok(())
    }

    /// The signal to notify when waiting work is needed sooner than it said.
    pub(super) fn urgency_signal(&self) -> Arc<UrgencySignal> {
        Arc::clone(&self.shared.urgent)
    }
}

impl<W: Work> WorkQueue<W> {
    /// Returns whether there is no work.
    pub(super) fn is_idle(&self) -> bool {
        self.backlog().works == 0
    }

    /// The work that there is.
    pub(super) fn backlog(&self) -> Backlog {
        let queue = self.shared.queue.lock();
        Backlog { works: queue.new.len() + queue.begun_count, held_bytes: queue.held }
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
                tracing::error!("work panicked; it is given up");
                None
            });
            let holds = rest.as_ref().map_or(0, W::held_bytes);
            let mut queue = self.queue.lock();
            let had_room = queue.has_room();
            queue.held = queue.held - held + holds;
            let has_room = queue.has_room();
            match rest {
                Some(work) if !queue.ended => queue.begun.push(work),
                done => {
                    queue.begun_count -= 1;
                    drop(queue);
                    drop(done);
                }
            }
            self.turn_over(urgency, has_room && !had_room);
        }
    }

    /// Notifies the threads that may have work after a turn. The thread of that turn looks itself.
    fn turn_over(&self, urgency: Urgency, gives_room: bool) {
        if gives_room {
            self.changed.notify_all();
        } else if urgency == Urgency::Urgent {
            self.changed.notify_one();
        }
        if urgency == Urgency::Rest {
            self.urgent.notify();
        }
    }

    /// Waits for the work that has the next turn; none when the queue has ended.
    fn next(&self, urgency: Urgency) -> Option<W> {
        let mut queue = self.queue.lock();
        while !queue.ended {
            let now = Instant::now();
            let survey = queue.survey(urgency, now);
            if let Some(work) = queue.take(urgency, &survey, now) {
                return Some(work);
            }
            if urgency != Urgency::Urgent {
                if survey.has_others {
                    // What was urgent may have become ordinary work without news: its session has ended.
                    self.changed.wait_for(&mut queue, RECHECK_INTERVAL);
                } else {
                    self.changed.wait(&mut queue);
                }
                continue;
            }
            if survey.has_others {
                // Work may have been urgent when the other threads looked.
                self.changed.notify_one();
            }
            let waits = !queue.new.is_empty() || !queue.begun.is_empty();
            let pause = if waits { URGENCY_CHECK_INTERVAL } else { Duration::ZERO };
            let until = survey.others_needed_at.map(|at| at.checked_sub(URGENT).unwrap_or(now));
            MutexGuard::unlocked(&mut queue, || self.urgent.wait(pause, until));
        }
        None
    }
}

impl<W: Work> Queue<W> {
    fn has_room(&self) -> bool {
        self.held < self.budget
    }

    /// Surveys the work that waits. Only urgent work needs a look at all new work, which is in its order.
    fn survey(&self, urgency: Urgency, now: Instant) -> Survey {
        let mut survey = Survey::default();
        for (index, due) in self.new.iter().map(W::due).enumerate() {
            if !urgency.has(due, now) {
                survey.note_other(due);
            } else if survey.new.is_none() {
                survey.new = Some((index, due.at()));
            }
            if survey.new.is_some() && urgency != Urgency::Urgent {
                break;
            }
        }
        for (index, due) in self.begun.iter().map(W::due).enumerate() {
            if !urgency.has(due, now) {
                survey.note_other(due);
            } else if survey.begun.is_none_or(|(_, at)| due.at() < at) {
                survey.begun = Some((index, due.at()));
            }
        }
        survey
    }

    /// Takes the work that has the next turn on a thread.
    fn take(&mut self, urgency: Urgency, survey: &Survey, now: Instant) -> Option<W> {
        let Survey { new, begun, .. } = *survey;
        if !self.has_room() && self.begun_count > 0 {
            return new.or(begun).and_then(|_| self.take_largest(urgency, now));
        }
        match (new.filter(|_| self.begun_count < urgency.most_begun()), begun) {
            (Some((_, new_at)), Some((index, begun_at))) if begun_at < new_at => {
                Some(self.begun.swap_remove(index))
            }
            (None, Some((index, _))) => Some(self.begun.swap_remove(index)),
            (Some((index, _)), _) => {
                self.begun_count += 1;
                self.new.remove(index)
            }
            (None, None) => None,
        }
    }

    /// Takes the work of this urgency that holds the most, of those that wait for another turn. If none of it
    /// has begun, urgent work needs the memory of others: they go on at its priority, never the other way
    /// round.
    fn take_largest(&mut self, urgency: Urgency, now: Instant) -> Option<W> {
        let works = || self.begun.iter().enumerate();
        let held = |(_, work): &(usize, &W)| work.held_bytes();
        let own = works().filter(|(_, work)| urgency.has(work.due(), now)).max_by_key(held);
        let any = || works().max_by_key(held).filter(|_| urgency == Urgency::Urgent);
        let (index, _) = own.or_else(any)?;
        Some(self.begun.swap_remove(index))
    }
}

impl Survey {
    fn note_other(&mut self, due: Due) {
        self.has_others = true;
        if let Due::Playback(at) = due {
            self.others_needed_at = Some(self.others_needed_at.map_or(at, |first| first.min(at)));
        }
    }
}

impl Due {
    fn at(self) -> Instant {
        match self {
            Due::Playback(at) | Due::Nobody(at) => at,
        }
    }

    fn is_urgent(self, now: Instant) -> bool {
        matches!(self, Due::Playback(at) if at <= now + URGENT)
    }
}

impl Urgency {
    fn has(self, due: Due, now: Instant) -> bool {
        match self {
            Urgency::All => true,
            Urgency::Urgent => due.is_urgent(now),
            Urgency::Rest => !due.is_urgent(now),
        }
    }

    /// Most works that have begun when a thread begins another.
    fn most_begun(self) -> usize {
        match self {
            Urgency::All | Urgency::Urgent => MOST_BEGUN,
            Urgency::Rest => MOST_BEGUN - KEPT_FOR_URGENT,
        }
    }
}

#[cfg(test)]
mod tests;
