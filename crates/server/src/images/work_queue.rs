//! Threads that do long work in turns, in the order in which it is needed.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use wirepath_engine::{BlockingPool, Priority, catch_panic};

/// Most works that have begun; more wait for their first turn. Each holds some memory, and disk space.
const BEGUN: usize = 2048;

/// Most works that wait for their first turn; more are refused.
const WAITING: usize = 4096;

/// Time before it is needed from which work is urgent: longer than a turn takes on a thread of low priority while
/// the processors are busy.
const URGENT: Duration = Duration::from_secs(1);

/// Interval of looking for work that has become urgent: playbacks change when it is needed, and tell nobody.
const LOOK: Duration = Duration::from_millis(20);

/// Work that is done in turns.
pub(super) trait Work: Send + Sized + 'static {
    /// Does some of it; returns the work if there is more to do. The first turn should be the shortest.
    fn turn(self) -> Option<Self>;

    /// Time at which the next turn is needed; the earliest goes first. It may change while the work waits.
    fn needed_at(&self) -> Instant;

    /// Bytes of memory that it holds until its next turn; work without a turn yet holds nothing worth counting.
    fn held_bytes(&self) -> u64;
}

/// Threads and the work that waits for them. They end when this is dropped, with that work.
pub(super) struct WorkQueue<W: Work> {
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    queue: Mutex<Queue<W>>,
    changed: Condvar,
}

/// Work that there is, and the memory that it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backlog {
    /// Works that wait for a turn, or have one.
    pub(super) works: usize,
    /// Bytes of memory that they hold.
    pub(super) held_bytes: u64,
}

/// Part of the work that a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    /// Work that is needed soon.
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

impl<W: Work> WorkQueue<W> {
    /// Starts `threads` threads (at least one) called `name` and a number, which are after everything else, and
    /// as many of normal priority for what is needed soon if `has_urgent`.
    /// While works hold `budget` bytes or more, those that hold the most have their turns, until they hold
    /// less or are done; others wait. So the memory of all is bounded by the budget, and what as many as there
    /// are threads can hold.
    pub(super) fn start(
        name: &str,
        threads: usize,
        has_urgent: bool,
        budget: u64,
    ) -> io::Result<WorkQueue<W>> {
        let (new, begun) = (VecDeque::new(), Vec::new());
        let queue = Queue { new, begun, begun_count: 0, budget, held: 0, ended: false };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new() });
        let start = |name: &str, priority, part| {
            let pool = BlockingPool::start(name, threads, priority)?;
            for _ in 0..threads.max(1) {
                let shared = Arc::clone(&shared);
                let submitted = pool.submit(move || shared.run(part));
                debug_assert!(submitted, "nothing else is in that queue");
            }
            io::Result::Ok(())
        };
        if has_urgent {
            start(&format!("{name}-now"), Priority::Normal, Part::Urgent)?;
        }
        start(name, Priority::Background, if has_urgent { Part::Rest } else { Part::All })?;
        Ok(WorkQueue { shared })
    }

    /// Queues work; returns it if there is no room.
    pub(super) fn submit(&self, work: W) -> Result<(), W> {
        let mut queue = self.shared.queue.lock();
        if queue.new.len() >= WAITING {
            return Err(work);
        }
        queue.new.push_back(work);
        drop(queue);
        self.shared.changed.notify_all();
        Ok(())
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
        drop(waiting); // outside the lock: files are closed
    }
}

impl<W: Work> Shared<W> {
    fn run(&self, part: Part) {
        while let Some(work) = self.next(part) {
            let held = work.held_bytes();
            // A panic is a bug of ours, but not a reason to stop other work.
            let rest = catch_panic(|| work.turn()).unwrap_or_else(|_| {
                tracing::error!("work panicked; it is given up");
                None
            });
            let holds = rest.as_ref().map_or(0, W::held_bytes);
            let mut queue = self.queue.lock();
            queue.held = queue.held - held + holds;
            match rest {
                Some(work) if !queue.ended => queue.begun.push(work),
                done => {
                    queue.begun_count -= 1;
                    drop(queue);
                    drop(done);
                }
            }
            // Memory that was given back lets all threads go on.
            self.changed.notify_all();
        }
    }

    /// Waits for the work that has the next turn; none when the queue has ended.
    fn next(&self, part: Part) -> Option<W> {
        let mut queue = self.queue.lock();
        while !queue.ended {
            if let Some(work) = queue.next(part, Instant::now()) {
                return Some(work);
            }
            let may_change = !queue.new.is_empty() || !queue.begun.is_empty();
            if may_change && part != Part::All {
                self.changed.wait_for(&mut queue, LOOK);
            } else {
                self.changed.wait(&mut queue);
            }
        }
        None
    }
}

impl<W: Work> Queue<W> {
    fn next(&mut self, part: Part, now: Instant) -> Option<W> {
        // The first of new work, which is in the order in which it is needed, and the earliest that has begun.
        let mut new = self.new.iter().map(W::needed_at).enumerate();
        let new = new.find(|(_, at)| part.has(*at, now));
        let begun = self.begun.iter().map(W::needed_at).enumerate().filter(|(_, at)| part.has(*at, now));
        let begun = begun.min_by_key(|(_, at)| *at);
        if self.held >= self.budget && self.begun_count > 0 {
            return new.or(begun).and_then(|_| self.largest());
        }
        match (new.filter(|_| self.begun_count < BEGUN), begun) {
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

    /// The work that holds the most, of those that wait for another turn.
    fn largest(&mut self) -> Option<W> {
        let (index, _) = self.begun.iter().map(W::held_bytes).enumerate().max_by_key(|(_, held)| *held)?;
        Some(self.begun.swap_remove(index))
    }
}

impl Part {
    fn has(self, needed_at: Instant, now: Instant) -> bool {
        match self {
            Part::All => true,
            Part::Urgent => needed_at <= now + URGENT,
            Part::Rest => needed_at > now + URGENT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// A budget that nothing here uses up.
    const ROOM: u64 = 1 << 40;

    /// Time after which work needs another turn.
    const MINUTE: Duration = Duration::from_secs(60);

    /// Work of some turns; each is told, then waits for leave.
    struct Told {
        name: usize,
        turns: usize,
        needed_at: Instant,
        /// Bytes that it holds after its first turn.
        holds: u64,
        has_begun: bool,
        tell: Sender<usize>,
        leave: Arc<Mutex<Receiver<()>>>,
    }

    impl Work for Told {
        fn turn(mut self) -> Option<Told> {
            self.tell.send(self.name).unwrap();
            self.leave.lock().recv().unwrap();
            self.turns -= 1;
            self.has_begun = true;
            self.needed_at += MINUTE;
            (self.turns > 0).then_some(self)
        }

        fn needed_at(&self) -> Instant {
            self.needed_at
        }

        fn held_bytes(&self) -> u64 {
            if self.has_begun { self.holds } else { 0 }
        }
    }

    struct Fixture {
        turns: WorkQueue<Told>,
        tell: Sender<usize>,
        told: Receiver<usize>,
        give_leave: Sender<()>,
        leave: Arc<Mutex<Receiver<()>>>,
        begun: Instant,
    }

    fn fixture() -> Fixture {
        fixture_within(ROOM)
    }

    fn fixture_within(budget: u64) -> Fixture {
        let ((tell, told), (give_leave, leave)) = (channel(), channel());
        let turns = WorkQueue::start("turn", 1, false, budget).unwrap();
        let begun = Instant::now();
        Fixture { turns, tell, told, give_leave, leave: Arc::new(Mutex::new(leave)), begun }
    }

    impl Fixture {
        /// Submits work whose first turn is needed in a number of seconds.
        fn submit(&self, name: usize, turns: usize, seconds: u64) {
            self.submit_holding(0, name, turns, seconds);
        }

        fn submit_holding(&self, holds: u64, name: usize, turns: usize, seconds: u64) {
            let (tell, leave) = (self.tell.clone(), Arc::clone(&self.leave));
            let needed_at = self.begun + Duration::from_secs(seconds);
            assert!(
                self.turns
                    .submit(Told { name, turns, needed_at, holds, has_begun: false, tell, leave })
                    .is_ok()
            );
        }

        /// Number of the work that has a turn now.
        fn whose(&self) -> usize {
            self.told.recv_timeout(Duration::from_secs(20)).unwrap()
        }

        /// The next to have turns, after the one that has it now.
        fn order(&self, length: usize) -> Vec<usize> {
            (0..length)
                .map(|_| {
                    self.give_leave.send(()).unwrap();
                    self.whose()
                })
                .collect()
        }
    }

    /// Promise: A long asset that is being packed delays no other: assets are packed in turns.
    #[test]
    fn what_is_needed_first_goes_first() {
        let fixture = fixture();
        fixture.submit(0, 5, 0);
        assert_eq!(fixture.whose(), 0);
        fixture.submit(1, 2, 1);
        fixture.submit(2, 3, 2);
        assert_eq!(fixture.order(3), [1, 2, 0]);
        fixture.submit(3, 1, 3);
        assert_eq!(fixture.order(6), [3, 1, 2, 0, 2, 0]);
    }

    /// Promise: Packings share a budget of memory: beyond it they wait, and none fails.
    #[test]
    fn work_beyond_the_budget_waits_until_memory_is_given_back() {
        let fixture = fixture_within(10);
        fixture.submit_holding(4, 0, 2, 0);
        assert_eq!(fixture.whose(), 0);
        fixture.submit_holding(6, 1, 3, 1);
        fixture.submit_holding(1, 2, 1, 2);
        assert_eq!(fixture.order(1), [1], "4 bytes are held");
        // 10 bytes are held: the work of 6 bytes goes on to its end, though others need their turns earlier.
        assert_eq!(fixture.order(2), [1, 1]);
        assert_eq!(fixture.turns.backlog(), Backlog { works: 3, held_bytes: 10 });
        assert_eq!(fixture.order(2), [2, 0]);
    }

    /// Promise: Packing that a session waits for has threads of normal priority, and waits for no other packing.
    #[test]
    fn what_is_needed_soon_has_a_thread_of_its_own() {
        struct Nice(Duration, Sender<(&'static str, i32)>, Option<Receiver<()>>, &'static str);
        impl Work for Nice {
            fn turn(self) -> Option<Nice> {
                let nice = rustix::process::getpriority_process(None).unwrap(); // of this thread
                self.1.send((self.3, nice)).unwrap();
                self.2.map(|leave| leave.recv());
                None
            }

            fn needed_at(&self) -> Instant {
                Instant::now() + self.0
            }

            fn held_bytes(&self) -> u64 {
                0
            }
        }
        let ((tell, told), (leave, leaves)) = (channel(), channel());
        let usual = rustix::process::getpriority_process(None).unwrap();
        let turns = WorkQueue::start("turn", 1, true, ROOM).unwrap();
        let next = || told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(turns.submit(Nice(10 * URGENT, tell.clone(), Some(leaves), "background")).is_ok());
        assert_eq!(next(), ("background", (usual + 10).min(19)));
        assert!(turns.submit(Nice(10 * URGENT, tell.clone(), None, "later")).is_ok());
        assert!(turns.submit(Nice(Duration::ZERO, tell, None, "waiting")).is_ok());
        assert_eq!(next(), ("waiting", usual), "the turn of the other thread has not ended");
        leave.send(()).unwrap();
        assert_eq!(next(), ("later", (usual + 10).min(19)));
    }

    #[test]
    fn only_so_much_has_begun_at_a_time() {
        let fixture = fixture();
        (0..BEGUN + 2).for_each(|name| fixture.submit(name, 3, name as u64 % 7));
        let mut order = vec![fixture.whose()];
        order.extend(fixture.order(3 * (BEGUN + 2) - 1));
        let mut begun = std::collections::HashMap::new();
        for name in order {
            *begun.entry(name).or_insert(0) += 1;
            assert!(begun.values().filter(|turns| **turns < 3).count() <= BEGUN);
        }
        assert_eq!(begun.len(), BEGUN + 2, "all have had theirs");
    }

    #[test]
    fn work_that_panics_ends_nothing_else() {
        struct Bug(Sender<()>, bool);
        impl Work for Bug {
            fn turn(self) -> Option<Bug> {
                assert!(!self.1, "on purpose");
                self.0.send(()).unwrap();
                None
            }

            fn needed_at(&self) -> Instant {
                Instant::now()
            }

            fn held_bytes(&self) -> u64 {
                0
            }
        }
        let (tell, told) = channel();
        let turns = WorkQueue::start("turn", 1, false, ROOM).unwrap();
        assert!(turns.submit(Bug(tell.clone(), true)).is_ok() && turns.submit(Bug(tell, false)).is_ok());
        told.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
