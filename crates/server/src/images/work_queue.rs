//! Threads that do long work in turns, in the order in which it is needed.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use wirepath_engine::{BlockingPool, Priority, catch_panic};

/// Most works that have begun; more wait for their first turn. Each holds some memory, and disk space.
const BEGUN: usize = 2048;

/// Most works that wait for their first turn; more are refused.
const WAITING: usize = 4096;

/// Work that is done in turns.
pub(super) trait Work: Send + Sized + 'static {
    /// Does some of it; returns the work if there is more to do. The first turn should be the shortest.
    fn turn(self) -> Option<Self>;

    /// Time at which the next turn is needed; the earliest goes first. It may change while the work waits.
    fn needed_at(&self) -> Instant;
}

/// Threads and the work that waits for them. They end when this is dropped, with that work.
pub(super) struct WorkQueue<W: Work> {
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    queue: Mutex<Queue<W>>,
    changed: Condvar,
}

struct Queue<W> {
    /// Work without a turn yet, in the order in which it is needed, and work that had some.
    new: VecDeque<W>,
    begun: Vec<W>,
    /// Number of works that have begun, whether they wait or have their turn.
    begun_count: usize,
    ended: bool,
}

impl<W: Work> WorkQueue<W> {
    /// Starts `threads` threads (at least one) called `name` and a number, which are after everything else.
    pub(super) fn start(name: &str, threads: usize) -> io::Result<WorkQueue<W>> {
        let queue = Queue { new: VecDeque::new(), begun: Vec::new(), begun_count: 0, ended: false };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new() });
        let pool = BlockingPool::start(name, threads, Priority::Background)?;
        for _ in 0..threads.max(1) {
            let shared = Arc::clone(&shared);
            let submitted = pool.submit(move || shared.run());
            debug_assert!(submitted, "nothing else is in that queue");
        }
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
        self.shared.changed.notify_one();
        Ok(())
    }
}

impl<W: Work> WorkQueue<W> {
    /// Returns whether there is no work.
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.shared.queue.lock();
        queue.new.is_empty() && queue.begun_count == 0
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
    fn run(&self) {
        while let Some(work) = self.next() {
            // A panic is a bug of ours, but not a reason to stop other work.
            let rest = catch_panic(|| work.turn()).unwrap_or_else(|_| {
                tracing::error!("work panicked; it is given up");
                None
            });
            let mut queue = self.queue.lock();
            match rest {
                Some(work) if !queue.ended => queue.begun.push(work),
                done => {
                    queue.begun_count -= 1;
                    drop(queue);
                    drop(done);
                }
            }
            self.changed.notify_one();
        }
    }

    /// Waits for the work that has the next turn; none when the queue has ended.
    fn next(&self) -> Option<W> {
        let mut queue = self.queue.lock();
        while !queue.ended {
            if let Some(work) = queue.next() {
                return Some(work);
            }
            self.changed.wait(&mut queue);
        }
        None
    }
}

impl<W: Work> Queue<W> {
    fn next(&mut self) -> Option<W> {
        let new = self.new.front().filter(|_| self.begun_count < BEGUN).map(W::needed_at);
        let begun = self.begun.iter().map(W::needed_at).enumerate().min_by_key(|(_, at)| *at);
        match (new, begun) {
            (Some(new_at), Some((index, begun_at))) if begun_at < new_at => {
                Some(self.begun.swap_remove(index))
            }
            (None, Some((index, _))) => Some(self.begun.swap_remove(index)),
            (Some(_), _) => {
                self.begun_count += 1;
                self.new.pop_front()
            }
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// Time after which work needs another turn.
    const MINUTE: Duration = Duration::from_secs(60);

    /// Work of some turns; each is told, then waits for leave.
    struct Told {
        name: usize,
        turns: usize,
        needed_at: Instant,
        tell: Sender<usize>,
        leave: Arc<Mutex<Receiver<()>>>,
    }

    impl Work for Told {
        fn turn(mut self) -> Option<Told> {
            self.tell.send(self.name).unwrap();
            self.leave.lock().recv().unwrap();
            self.turns -= 1;
            self.needed_at += MINUTE;
            (self.turns > 0).then_some(self)
        }

        fn needed_at(&self) -> Instant {
            self.needed_at
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
        let ((tell, told), (give_leave, leave)) = (channel(), channel());
        let turns = WorkQueue::start("turn", 1).unwrap();
        let begun = Instant::now();
        Fixture { turns, tell, told, give_leave, leave: Arc::new(Mutex::new(leave)), begun }
    }

    impl Fixture {
        /// Submits work whose first turn is needed in a number of seconds.
        fn submit(&self, name: usize, turns: usize, seconds: u64) {
            let (tell, leave) = (self.tell.clone(), Arc::clone(&self.leave));
            let needed_at = self.begun + Duration::from_secs(seconds);
            assert!(self.turns.submit(Told { name, turns, needed_at, tell, leave }).is_ok());
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
        }
        let (tell, told) = channel();
        let turns = WorkQueue::start("turn", 1).unwrap();
        assert!(turns.submit(Bug(tell.clone(), true)).is_ok() && turns.submit(Bug(tell, false)).is_ok());
        told.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
