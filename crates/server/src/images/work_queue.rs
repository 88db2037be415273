//! Threads that do long work in turns, so that long work does not delay the beginnings of others.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use wirepath_engine::{BlockingPool, Priority, catch_panic};

/// Most works that have begun; more wait for their first turn. Each holds some memory, and disk space.
const BEGUN: usize = 32;

/// Most works that wait for their first turn; more are refused.
const WAITING: usize = 1024;

/// Most first turns in a row before work that has begun gets one: first turns are short, but clients wait for
/// the others, too.
const FIRST_IN_A_ROW: usize = 8;

/// Work that is done in turns.
pub(super) trait Work: Send + Sized + 'static {
    /// Does some of it; returns the work if there is more to do. The first turn should be the shortest.
    fn turn(self) -> Option<Self>;
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
    /// Work without a turn yet, and work that had some.
    new: VecDeque<W>,
    begun: VecDeque<W>,
    /// Number of works that have begun, whether they wait or have their turn.
    begun_count: usize,
    firsts_in_a_row: usize,
    ended: bool,
}

impl<W: Work> WorkQueue<W> {
    /// Starts `threads` threads (at least one) called `name` and a number, which are after everything else.
    pub(super) fn start(name: &str, threads: usize) -> io::Result<WorkQueue<W>> {
        let queue = Queue {
            new: VecDeque::new(),
            begun: VecDeque::new(),
            begun_count: 0,
            firsts_in_a_row: 0,
            ended: false,
        };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new() });
        let pool = BlockingPool::start(name, threads, Priority::Background)?;
        for _ in 0..threads.max(1) {
            let shared = Arc::clone(&shared);
            let submitted = pool.submit(move || shared.run());
            debug_assert!(submitted, "nothing else is in that queue");
        }
        Ok(WorkQueue { shared })
    }

    /// Queues work, its first turn before those of work that has begun; returns it if there is no room.
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
                Some(work) if !queue.ended => queue.begun.push_back(work),
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

impl<W> Queue<W> {
    fn next(&mut self) -> Option<W> {
        let turn_of_new = self.firsts_in_a_row < FIRST_IN_A_ROW || self.begun.is_empty();
        if self.begun_count < BEGUN
            && turn_of_new
            && let Some(work) = self.new.pop_front()
        {
            self.begun_count += 1;
            self.firsts_in_a_row += 1;
            return Some(work);
        }
        self.firsts_in_a_row = 0;
        self.begun.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// Work of some turns; each is told, then waits for leave.
    struct Told {
        name: usize,
        turns: usize,
        tell: Sender<usize>,
        leave: Arc<Mutex<Receiver<()>>>,
    }

    impl Work for Told {
        fn turn(mut self) -> Option<Told> {
            self.tell.send(self.name).unwrap();
            self.leave.lock().recv().unwrap();
            self.turns -= 1;
            (self.turns > 0).then_some(self)
        }
    }

    struct Fixture {
        turns: WorkQueue<Told>,
        tell: Sender<usize>,
        told: Receiver<usize>,
        give_leave: Sender<()>,
        leave: Arc<Mutex<Receiver<()>>>,
    }

    fn fixture() -> Fixture {
        let ((tell, told), (give_leave, leave)) = (channel(), channel());
        let turns = WorkQueue::start("turn", 1).unwrap();
        Fixture { turns, tell, told, give_leave, leave: Arc::new(Mutex::new(leave)) }
    }

    impl Fixture {
        fn submit(&self, name: usize, turns: usize) {
            let (tell, leave) = (self.tell.clone(), Arc::clone(&self.leave));
            assert!(self.turns.submit(Told { name, turns, tell, leave }).is_ok());
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
    fn what_is_new_goes_first_and_the_rest_takes_turns() {
        let fixture = fixture();
        fixture.submit(0, 5);
        assert_eq!(fixture.whose(), 0);
        fixture.submit(1, 2);
        fixture.submit(2, 3);
        assert_eq!(fixture.order(3), [1, 2, 0]);
        fixture.submit(3, 1);
        assert_eq!(fixture.order(6), [3, 1, 2, 0, 2, 0]);
    }

    #[test]
    fn what_has_begun_goes_on_though_new_work_keeps_coming() {
        let fixture = fixture();
        fixture.submit(0, 2);
        assert_eq!(fixture.whose(), 0);
        (1..=20).for_each(|name| fixture.submit(name, 1));
        let order = fixture.order(FIRST_IN_A_ROW);
        assert!(order.contains(&0), "{order:?}");
    }

    #[test]
    fn only_so_much_has_begun_at_a_time() {
        let fixture = fixture();
        (0..BEGUN + 2).for_each(|name| fixture.submit(name, 3));
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
        }
        let (tell, told) = channel();
        let turns = WorkQueue::start("turn", 1).unwrap();
        assert!(turns.submit(Bug(tell.clone(), true)).is_ok() && turns.submit(Bug(tell, false)).is_ok());
        told.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
